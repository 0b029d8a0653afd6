"""Who a file system of HDFS is, where it goes on in another process.

Who sends one means that it stays who it is: a user's name is no secret and always travels, as
does that of who acts for the user. Tokens travel where ``hflush.pickle.secrets`` asks for that.
Nothing is named that the receiver is by itself, so that a file system that comes back is the one
that was sent.
"""

from __future__ import annotations

from ..configuration import real_user_name, user_name
from ..general_keys import LEFT_OUT
from .keys import CREDENTIALS, REAL_USER, USER
from .settings import packed, tokens_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..configuration import Configuration

__all__ = ["KEYS", "caller", "foreign"]

KEYS = (USER, REAL_USER, CREDENTIALS, LEFT_OUT)


def caller(conf: Configuration, with_secrets: bool) -> dict[str, str]:
    """Return the keys that say who sends a file system, unless the program has named a user."""
    keys = {}
    if conf.get(REAL_USER, "").strip():  # it was sent here
        keys = {USER: conf.get(USER, "").strip() or user_name(), REAL_USER: conf[REAL_USER]}
    elif not conf.get(USER, "").strip():
        keys = {USER: user_name(), REAL_USER: real_user_name()}
    if tokens := packed(tokens_of(conf)[0]):
        keys.update({CREDENTIALS: tokens} if with_secrets else {LEFT_OUT: CREDENTIALS})
    return keys


def foreign(caller: Mapping[str, str], conf: Configuration) -> dict[str, str]:
    """Return the keys of a sender that this process would not have by itself."""
    users = {name: caller[name] for name in (USER, REAL_USER) if name in caller}
    if users == {USER: user_name(), REAL_USER: real_user_name()}:
        users = {}
    tokens = packed(tokens_of(conf)[0])
    sent = caller.get(CREDENTIALS, "")
    if sent and sent != tokens:
        users[CREDENTIALS] = sent
    elif LEFT_OUT in caller and not tokens:
        users[LEFT_OUT] = caller[LEFT_OUT]
    return users
