"""Who a file system of HDFS is, where it goes on in another process.

Who sends one means that it stays who it is: a user's name is no secret and always travels, as
does that of who acts for the user. Tokens travel where ``hflush.pickle.secrets`` asks for that.
Nothing is named that the receiver is by itself, so that a file system that comes back is the one
that was sent.
"""

from __future__ import annotations

from contextlib import suppress

from ..configuration import real_user_name, user_name
from ..credentials import Credentials
from ..general_keys import LEFT_OUT
from .keys import CREDENTIALS, REAL_USER, USER
from .settings import Tokens, of_hdfs, packed, unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .. import _core
    from ..configuration import Configuration

__all__ = ["KEYS", "Identity", "foreign", "joined"]

KEYS = (USER, REAL_USER, CREDENTIALS, LEFT_OUT)


class Identity:
    """Who acts, and with which tokens: of the process as it is when this is made.

    Parameters
    ----------
    conf : Configuration
        The keys.

    Raises
    ------
    OSError, ValueError
        As by :class:`Tokens`.
    """

    def __init__(self, conf: Configuration) -> None:
        self.tokens = Tokens(conf)
        self._users = {}  # unless the program has named one
        if conf.get(REAL_USER, "").strip():  # it was sent here
            user = conf.get(USER, "").strip() or user_name()
            self._users = {USER: user, REAL_USER: conf[REAL_USER]}
        elif not conf.get(USER, "").strip():
            self._users = {USER: user_name(), REAL_USER: real_user_name()}

    def caller(
        self, with_secrets: bool, native: _core.HdfsSettings | None = None
    ) -> dict[str, str]:
        """Return the keys that say who sends a file system: that of these servers, or any."""
        tokens = of_hdfs(self.tokens.read(), native)
        keys = dict(self._users)
        if tokens.tokens:
            keys |= {CREDENTIALS: packed(tokens)} if with_secrets else {LEFT_OUT: _names(tokens)}
        return keys


def _names(tokens: Credentials) -> str:
    """Return the names of tokens that are left out: they say for which servers."""
    return " ".join(sorted({f"{CREDENTIALS}:{one.service}" for one in tokens.tokens.values()}))


def joined(callers: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return what several file systems say together: the tokens of all."""
    said = {key: text for caller in callers for key, text in caller.items()}
    if CREDENTIALS in said:
        tokens = Credentials()
        for caller in callers:
            if CREDENTIALS in caller:
                tokens.tokens |= unpacked(caller[CREDENTIALS]).tokens
        said[CREDENTIALS] = packed(tokens)
    if LEFT_OUT in said:
        said[LEFT_OUT] = " ".join(caller.get(LEFT_OUT, "") for caller in callers)
    return said


def foreign(caller: Mapping[str, str], conf: Configuration) -> dict[str, str]:
    """Return the keys of a sender that this process would not have by itself."""
    users = {name: caller[name] for name in (USER, REAL_USER) if name in caller}
    if users == {USER: user_name(), REAL_USER: real_user_name()}:
        users = {}
    own = Credentials()
    with suppress(OSError, ValueError):  # they cannot be read: they are used nowhere
        own = of_hdfs(Tokens(conf).last)
    sent = caller.get(CREDENTIALS, "")
    if sent and not unpacked(sent).tokens.items() <= own.tokens.items():
        users[CREDENTIALS] = sent
    elif not {*caller.get(LEFT_OUT, "").split()}.issubset(_names(own).split()):
        users[LEFT_OUT] = caller[LEFT_OUT]
    return users
