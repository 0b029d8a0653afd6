"""The gate (tools/conformance.py, tests/support/conformance.py).

A promise counts as proven only by a test that passed and shows what the matrix declares; and the
page says what a full run on the present sources has shown.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from devkit import changes, sources
from support.waiting import DEADLINE_S

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "conformance.py"
SHOWN = {"Y": "holds", "N": "refused", "D": "divergence"}
RULES = [
    {
        "id": f"TEST-{declared}",
        "level": "MUST",
        "requirement": "something",
        "stores": {"raw": declared, "crc": "-", "hdfs": "-", "s3": "-"},
        "source": "",
    }
    for declared in SHOWN
]


@pytest.fixture
def tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("conformance_tool", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    module.NOT_YET = {}
    module.OTHERWISE = {}
    return module


def result(outcome: str, store: str = "raw", **claims: str) -> dict[str, Any]:
    """A test of all rules that claims what is declared, but for these: TEST_Y="refused"."""
    of_rules = {
        rule: {store: claims.get(rule.replace("-", "_"), SHOWN[rule[-1]])}
        for rule in ("TEST-Y", "TEST-N", "TEST-D")
    }
    return {"claims": of_rules, "outcome": outcome}


def conformance(tool: ModuleType, *results: dict[str, Any]) -> Any:
    named = {f"tests/test_x.py::test_{number}": each for number, each in enumerate(results)}
    return tool.Conformance(RULES, named)


def verdicts(tool: ModuleType, *results: dict[str, Any]) -> list[str]:
    matrix = conformance(tool, *results)
    return [matrix.cell(rule, "raw").verdict for rule in RULES]


class TestCells:
    def test_a_passing_test_that_shows_what_is_declared(self, tool: ModuleType) -> None:
        """Y holds, N is refused as declared, D is a declared divergence."""
        proven = ["holds", "refused as declared", "declared divergence"]
        assert verdicts(tool, result("passed")) == proven
        assert verdicts(tool, result("passed"), result("skipped")) == proven

    def test_nothing_else_proves_it(self, tool: ModuleType) -> None:
        """No test, a skipped one, or one of another store leaves every promise unproven."""
        for results in ([], [result("skipped")]):
            assert verdicts(tool, *results) == ["NOT PROVEN"] * 3
        of_another = result("passed", "crc")
        assert verdicts(tool, of_another) == ["NOT PROVEN"] * 3

    def test_a_failure_outweighs_successes(self, tool: ModuleType) -> None:
        """One failing test of a rule is enough."""
        results = [result("passed"), result("failed"), result("passed")]
        assert verdicts(tool, *results) == ["FAILS"] * 3

    @pytest.mark.parametrize("outcome", ["passed", "skipped"])
    @pytest.mark.parametrize(
        ("rule", "claim"),
        [
            ("TEST_Y", "refused"),
            ("TEST_Y", "divergence"),
            ("TEST_Y", "today"),
            ("TEST_N", "holds"),
            ("TEST_N", "divergence"),
            ("TEST_D", "holds"),
            ("TEST_D", "refused"),
        ],
    )
    def test_a_test_that_shows_something_else(
        self, tool: ModuleType, rule: str, claim: str, outcome: str
    ) -> None:
        """It fails the cell, also beside a test that shows what is declared."""
        found = verdicts(tool, result("passed"), result(outcome, **{rule: claim}))
        wrong = ["TEST_Y", "TEST_N", "TEST_D"].index(rule)
        assert [verdict == "MISLABELLED" for verdict in found] == [n == wrong for n in range(3)]

    def test_a_rule_that_is_not_about_the_store(self, tool: ModuleType) -> None:
        """A test may run there; but it cannot show a refusal that is not declared."""
        rule = RULES[0]
        for claim, expected in (("holds", "not applicable"), ("refused", "MISLABELLED")):
            matrix = conformance(tool, result("passed", "crc", TEST_Y=claim))
            assert matrix.cell(rule, "crc").verdict == expected


class TestNotYet:
    """A promise that is not kept yet, with its reason."""

    @pytest.fixture(autouse=True)
    def _listed(self, tool: ModuleType) -> None:
        tool.NOT_YET = {("TEST-Y", "raw"): ("recovery", "a part")}

    def test_a_test_shows_what_happens_today(self, tool: ModuleType) -> None:
        """Without one the cell is not proven; one that fails, or that says it holds, fails it."""
        today = result("passed", TEST_Y="today")
        assert verdicts(tool, today)[0] == "not yet: recovery"
        assert verdicts(tool)[0] == "NOT PROVEN"
        assert verdicts(tool, result("failed", TEST_Y="today"))[0] == "FAILS"
        assert verdicts(tool, today, result("passed"))[0] == "MISLABELLED"

    def test_the_page_has_the_reason(self, tool: ModuleType) -> None:
        """In a table of its own."""
        assert "| TEST-Y | raw | recovery | a part |" in page(tool)


class TestOtherwise:
    """A cell whose letter is not what the store does, with the reason."""

    @pytest.mark.parametrize(
        ("rule", "does", "expected"),
        [
            ("TEST-Y", "refused", "not kept: refused"),
            ("TEST-Y", "divergence", "not kept: diverges"),
            ("TEST-D", "holds", "holds, more than declared"),
        ],
    )
    def test_its_tests_show_what_the_store_does(
        self, tool: ModuleType, rule: str, does: str, expected: str
    ) -> None:
        """And no longer what is declared."""
        tool.OTHERWISE = {(rule, "raw"): (does, "because")}
        which = [each["id"] for each in RULES].index(rule)
        assert verdicts(tool, result("passed", **{rule.replace("-", "_"): does}))[which] == expected
        assert verdicts(tool, result("passed"))[which] == "MISLABELLED"
        assert f"| {rule} | raw | {SHOWN[rule[-1]]} | {does} | because |" in page(tool)


def test_the_tables_of_the_tool_name_promises() -> None:
    """Each entry is a promise of the matrix, and says why; what is listed is not as declared."""
    import conformance as tool

    rules = {rule["id"]: rule["stores"] for rule in json.loads(tool.RULES.read_text("utf-8"))}
    assert not set(tool.NOT_YET) & set(tool.OTHERWISE)
    for (identity, store), (what, missing) in tool.NOT_YET.items():
        assert rules[identity][store] in "YD"
        assert what
        assert missing
    for (identity, store), (what, why) in tool.OTHERWISE.items():
        assert tool.DECLARED[rules[identity][store]] != what
        assert what in tool.PROVEN
        assert why


def test_matrix_is_complete(tool: ModuleType) -> None:
    """The matrix in the repository has unique rules with a known letter for every store."""
    rules = json.loads(tool.RULES.read_text(encoding="utf-8"))
    assert len(rules) == len({rule["id"] for rule in rules}) == RULES_OF_THE_CONTRACT
    assert {letter for rule in rules for letter in rule["stores"].values()} == set("YND-")
    assert all(rule["requirement"] and tuple(rule["stores"]) == tool.STORES for rule in rules)


RULES_OF_THE_CONTRACT = 478


def a_run(tool: ModuleType, *results: dict[str, Any]) -> Any:
    named = {f"tests/contract/test_x.py::test_{n}[raw]": each for n, each in enumerate(results)}
    return tool.Run("5eed", "c0ffee", "2026-01-01", named)


def page(tool: ModuleType, *results: dict[str, Any]) -> list[str]:
    run = a_run(tool, *results)
    return list(tool.page(tool.Conformance(RULES, run.tests), run))


class TestPage:
    def test_every_rule_and_links_to_its_tests(self, tool: ModuleType) -> None:
        """The page has a summary, a row per rule, and links."""
        lines = page(tool, result("passed"))
        row = next(line for line in lines if line.startswith("| TEST-N "))
        assert "| refused as declared | not applicable | not applicable | not applicable |" in row
        assert "[test_x](../tests/contract/test_x.py)" in row
        assert "| holds | 1 | 0 | 0 | 0 |" in lines

    def test_it_names_its_run(self, tool: ModuleType) -> None:
        """The day, the commit, and the digest of its sources, for comparisons."""
        made = "Made from the run of 2026-01-01 on commit `c0ffee`, sources `5eed`."
        assert made in page(tool)

    def test_what_a_machine_skips_makes_no_difference(self, tool: ModuleType) -> None:
        """As long as another test shows the same."""
        passed, skipped = result("passed"), result("skipped")
        assert page(tool, passed, skipped) == page(tool, passed, passed)


class Results:
    """What is kept of a run: the files of its parts, in a directory of the test's own."""

    def __init__(self, tool: ModuleType, directory: Path) -> None:
        self.tool = tool
        self.directory = directory

    def add(self, part: str, tests: object = None, **header: str) -> None:
        content = changes.digest(part, with_prose=False)
        of_now = {"part": part, "content": content, "commit": "c0ffee", "date": "2026"}
        kept = {**of_now, **header, "tests": {} if tests is None else tests}
        (self.directory / f"{part}.json").write_text(json.dumps(kept), encoding="utf-8")

    def add_all(self, tests: object = None) -> None:
        for part in self.tool.OF_FULL:
            self.add(part, tests if part == "contract-local" else {})

    def refusal(self) -> str:
        with pytest.raises(self.tool.Refused) as refused:
            self.tool.Run.load()
        return str(refused.value)


@pytest.fixture
def results(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    try:
        sources.digest()
    except sources.NoRepository as missing:
        pytest.skip(str(missing))
    (tmp_path / "results").mkdir()
    (tmp_path / "docs").mkdir()
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES), encoding="utf-8")
    tool.REPOSITORY, tool.RULES = tmp_path, rules
    tool.RESULTS, tool.PAGE = tmp_path / "results", tmp_path / "docs" / "conformance.md"
    return Results(tool, tmp_path / "results")


class TestRun:
    def test_all_parts_on_these_sources(self, tool: ModuleType, results: Results) -> None:
        """Their tests together are the run."""
        results.add_all({"tests/test_x.py::test": result("passed")})
        run = tool.Run.load()
        assert run.sources == sources.digest()
        assert list(run.tests) == ["tests/test_x.py::test"]

    def test_a_part_that_was_not_run(self, tool: ModuleType, results: Results) -> None:
        """It is named, with what to do."""
        results.add_all()
        (results.directory / "faults.json").unlink()
        assert results.refusal() == (
            "no full run of these sources: faults was not run. Run ./dev test full"
        )

    def test_a_part_of_other_sources(self, tool: ModuleType, results: Results) -> None:
        """Parts of two commits, or of files that were edited since, do not mix."""
        results.add_all()
        results.add("hdfs", content="0123", commit="abc-dirty", date="2025-12-31")
        assert "hdfs ran on other sources (abc-dirty, 2025-12-31)" in results.refusal()

    def test_a_part_that_did_not_end(self, tool: ModuleType, results: Results) -> None:
        """What was begun, and nothing was added to, proves nothing."""
        results.add_all()
        tool.begin("unit")
        assert "unit did not end, or ran some of its tests only" in results.refusal()

    def test_begin_forgets_what_is_gone(self, tool: ModuleType, results: Results) -> None:
        """The outcomes of an earlier run of the part are removed."""
        results.add("unit", {"tests/test_x.py::test_gone": result("passed")})
        tool.begin("unit")
        assert "test_gone" not in (results.directory / "unit.json").read_text("utf-8")

    @pytest.mark.parametrize("command", ["check", "render"])
    def test_the_commands_refuse(
        self,
        tool: ModuleType,
        results: Results,
        command: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """With exit code 1 and one line; the page is left as it is."""
        tool.PAGE.write_text("as it was", encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["conformance.py", command])
        assert tool.main() == 1
        assert "no full run of these sources" in capsys.readouterr().out
        assert tool.PAGE.read_text("utf-8") == "as it was"


class TestCheck:
    def test_unproven_promises_fail(
        self, tool: ModuleType, results: Results, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """check names rule, store, letter and the tests that say something else."""
        results.add_all({"tests/test_x.py::test": result("passed", TEST_N="holds")})
        assert tool.check() == 1
        out = capsys.readouterr().out
        assert "TEST-N       raw   N MISLABELLED: something (tests/test_x.py::test says hol" in out
        assert "2 of 3 promises" in out

    def test_the_page_may_be_older(self, tool: ModuleType, results: Results) -> None:
        """It says of which run it was made: what a later one proves is not held against it."""
        results.add_all({"tests/test_x.py::test": result("passed")})
        assert tool.check() == 0  # there is none
        tool.render()
        text = tool.PAGE.read_text("utf-8")
        tool.PAGE.write_text(text.replace("c0ffee", "facade"), encoding="utf-8")
        assert tool.check() == 0

    def test_claims_need_no_run(
        self, tool: ModuleType, results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A promise that no test claims fails, and so does a claim that the matrix denies."""
        claims = tmp_path / "claims.json"
        test = result("passed")["claims"]
        claims.write_text(json.dumps({"tests/test_x.py::test": test}), encoding="utf-8")
        assert tool.check_claims(claims) == 0
        claims.write_text(json.dumps({"tests/test_x.py::test": test | {"TEST-N": {}}}), "utf-8")
        assert tool.check_claims(claims) == 1
        assert "TEST-N       raw   N NOT PROVEN" in capsys.readouterr().out
        other = result("passed", TEST_N="holds")["claims"]
        claims.write_text(json.dumps({"tests/test_x.py::test": other}), encoding="utf-8")
        assert tool.check_claims(claims) == 1
        assert "TEST-N       raw   N MISLABELLED" in capsys.readouterr().out


Git = Callable[..., str]


class TestSources:
    @pytest.fixture
    def git(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
        """A repository of its own, with one source and a page."""
        monkeypatch.setattr(sources, "ROOT", tmp_path)

        def git(*arguments: str) -> str:
            identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
            command = ["git", "-C", str(tmp_path), *identity, *arguments]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        git("init", "--quiet")
        (tmp_path / "docs").mkdir()
        for name in ("a.py", "docs/conformance.md", "README.md"):
            (tmp_path / name).write_text("one", encoding="utf-8")
        git("add", ".")
        git("commit", "--quiet", "-m", "one")
        return git

    def test_page_and_code_in_one_commit(self, git: Git, tmp_path: Path) -> None:
        """The digest of a work tree is that of the commit that will be made of it."""
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "b.py").write_text("two", encoding="utf-8")
        (tmp_path / "a.py").unlink()
        tried = sources.digest()
        assert tried != sources.digest("HEAD")
        (tmp_path / "docs" / "conformance.md").write_text(tried, encoding="utf-8")
        git("add", "--all")
        git("commit", "--quiet", "-m", "two")
        assert sources.digest() == sources.digest("HEAD") == tried != sources.digest("HEAD~")

    def test_prose_is_no_source(self, git: Git, tmp_path: Path) -> None:
        """A page that is written after the run does not make the run void."""
        before = sources.digest()
        (tmp_path / "README.md").write_text("two", encoding="utf-8")
        (tmp_path / "core.123").write_text("of a program that has died", encoding="utf-8")
        assert sources.digest() == before
        assert sources.commit().endswith("-dirty")

    def test_without_git(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An unpacked archive has no digest, and says why."""
        monkeypatch.setattr(sources, "ROOT", tmp_path)
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
        with pytest.raises(sources.NoRepository, match="not a git repository"):
            sources.digest()


TESTS = """
import pytest

@pytest.mark.rule("WRITE-1", "WRITE-2", refused=("crc", "s3"), divergence="hdfs")
@pytest.mark.rule("WRITE-3", on="raw")
@pytest.mark.rule("WRITE-4", today="hdfs")
@pytest.mark.stores("raw", "crc", "hdfs", "s3")
def test_of_all():
    pass

@pytest.mark.rule("WRITE-5")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("outcome", ["passed", "failed", "skipped"])
def test_that_ends(outcome):
    if outcome == "skipped":
        pytest.skip("why not")
    assert outcome == "passed"
"""


class TestPlugin:
    @pytest.fixture
    def run(self, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
        """Run the plugin on tests, in a process of its own."""
        (tmp_path / "begun.json").write_text('{"part": "unit", "tests": null}', encoding="utf-8")

        def run(tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
            (tmp_path / "test_it.py").write_text(tests, encoding="utf-8")
            command = [sys.executable, "-m", "pytest", "-p", "support.conformance", "--rootdir=."]
            command += ["-c", os.devnull, "--conformance=begun.json", *arguments]
            others = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # they take seconds to import
            environment = {**os.environ, **others, "PYTHONPATH": str(ROOT / "tests")}
            return subprocess.run(
                command,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
            )

        return run

    def kept(self, tmp_path: Path) -> Any:
        return json.loads((tmp_path / "begun.json").read_text("utf-8"))["tests"]

    def test_what_tests_claim_and_how_they_end(self, run: Any, tmp_path: Path) -> None:
        """Per rule and store; beside what was there of the run."""
        assert run(TESTS).returncode == 1
        found = self.kept(tmp_path)
        others = {"raw": "holds", "crc": "refused", "hdfs": "divergence", "s3": "refused"}
        assert found["test_it.py::test_of_all"] == {
            "claims": {
                "WRITE-1": others,
                "WRITE-2": others,
                "WRITE-3": {"raw": "holds"},
                "WRITE-4": {"raw": "holds", "crc": "holds", "hdfs": "today", "s3": "holds"},
            },
            "outcome": "passed",
        }
        for outcome in ("passed", "failed", "skipped"):
            ended = {"claims": {"WRITE-5": {"raw": "holds"}}, "outcome": outcome}
            assert found[f"test_it.py::test_that_ends[{outcome}]"] == ended
        assert json.loads((tmp_path / "begun.json").read_text("utf-8"))["part"] == "unit"

    @pytest.mark.parametrize(
        "arguments",
        [["-x"], ["--maxfail=1"]],
    )
    def test_a_run_of_some_tests_is_not_kept(
        self, run: Any, tmp_path: Path, arguments: list[str]
    ) -> None:
        """Those behind the first failure are missed."""
        run(TESTS, *arguments)
        assert self.kept(tmp_path) is None

    def test_a_second_run_of_what_failed(self, run: Any, tmp_path: Path) -> None:
        """Its outcomes replace the first ones; the others stay."""
        run(TESTS)
        mended = TESTS.replace('assert outcome == "passed"', "assert True")
        assert "1 passed" in run(mended, "--last-failed").stdout
        outcomes = {name: test["outcome"] for name, test in self.kept(tmp_path).items()}
        assert outcomes["test_it.py::test_that_ends[failed]"] == "passed"
        assert outcomes["test_it.py::test_that_ends[skipped]"] == "skipped"
        assert len(outcomes) == 4

    def test_claims_without_a_run(self, run: Any, tmp_path: Path) -> None:
        """What each test would show is known when it is collected."""
        run(TESTS, "--collect-only", "--claims=claims.json")
        claims = json.loads((tmp_path / "claims.json").read_text("utf-8"))
        assert claims["test_it.py::test_that_ends[failed]"] == {"WRITE-5": {"raw": "holds"}}
        assert self.kept(tmp_path) == {}

    @pytest.mark.parametrize(
        ("marker", "complaint"),
        [
            ('"WRITE-0"', "no such rule: WRITE-0"),
            ('"WRITE-1", refused="nfs"', "no such store: nfs"),
            ('"WRITE-1", refuses="s3"', "rule() knows no refuses: refused, divergence, today"),
        ],
    )
    def test_misspelt_markers(self, run: Any, tmp_path: Path, marker: str, complaint: str) -> None:
        """They end the run before it begins."""
        test = f"@pytest.mark.rule({marker})\n@pytest.mark.stores('raw')\ndef test(): pass"
        ended = run(f"import pytest\n{test}")
        assert ended.returncode == pytest.ExitCode.USAGE_ERROR
        assert complaint in ended.stdout + ended.stderr
        assert self.kept(tmp_path) is None

    def test_two_words_for_one_cell(self, run: Any, tmp_path: Path) -> None:
        """A test shows one thing of a rule on a store."""
        markers = '@pytest.mark.rule("WRITE-1")\n@pytest.mark.rule("WRITE-1", refused="s3")\n'
        ended = run(f"import pytest\n{markers}@pytest.mark.stores('s3')\ndef test(): pass")
        assert ended.returncode == pytest.ExitCode.USAGE_ERROR
        assert "WRITE-1 on s3 is both" in ended.stdout + ended.stderr
