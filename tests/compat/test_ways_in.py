"""The ways to turn the shim on without an edit: a variable, `python -m v1_compat`, a pytest plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = "import sys\nfrom vllm.utils import cdiv\nprint(__name__, sys.argv[1:], cdiv(7, 2))\n"


@pytest.mark.parametrize("form", [["app.py"], ["-m", "app"], ["-c", SCRIPT]], ids=["script", "module", "code"])
def test_python_m_v1_compat_runs_a_program_as_itself(
    child: Any, small_vllm: Path, tmp_path: Path, form: list[str]
) -> None:
    (tmp_path / "app.py").write_text(SCRIPT)
    done = child(["-m", "v1_compat", *form, "--x", "1"], small_vllm, cwd=tmp_path)
    assert done.stdout == "__main__ ['--x', '1'] 4\n"
    file = {"-m": tmp_path / "app.py", "-c": "<string>"}.get(form[0], "app.py")
    assert f"{file}:2: RemovedIn0_11_1Warning: V1M001" in done.stderr


def test_code_is_main_and_finds_the_modules_of_this_folder(child: Any, small_vllm: Path, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("from vllm.utils import cdiv\n")
    code = "import beside, sys\nclass C: ...\nimport pickle; print(pickle.loads(pickle.dumps(C)) is C, sys.argv)"
    done = child(["-m", "v1_compat", "-c", code, "x"], small_vllm, cwd=tmp_path)
    assert done.stdout == "True ['-c', 'x']\n"


def test_a_script_finds_the_modules_beside_it(child: Any, small_vllm: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "app.py").write_text("import beside\n")
    (tmp_path / "sub" / "beside.py").write_text("from vllm.utils import cdiv\n")
    done = child(["-m", "v1_compat", "sub/app.py"], small_vllm, cwd=tmp_path)
    assert "beside.py:1:" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.py"], "missing.py: no such file"),
        (["-m"], "which module?"),
        (["-c"], "which code?"),
        (["-X", "dev"], "go before"),
        ([], "usage:"),
    ],
    ids=["no such script", "no module", "no code", "an option of Python", "nothing"],
)
def test_bad_calls_say_what_to_do(child: Any, tmp_path: Path, arguments: list[str], says: str) -> None:
    done = child(["-m", "v1_compat", *arguments], cwd=tmp_path, check=False)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


class TestPth:
    """The line that the wheel puts into site-packages; site runs it as here."""

    LINE = (ROOT / "compat" / "v1_compat.pth").read_text()

    def run(self, child: Any, tmp_path: Path, site: Path, **env: str) -> tuple[str, str]:
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site" / "v1_compat.pth").write_text(self.LINE)
        (tmp_path / "app.py").write_text("import sys\nprint('v1_compat' in sys.modules)\nfrom vllm.utils import cdiv\n")
        start = f"import site; site.addsitedir({str(tmp_path / 'site')!r}); import runpy; runpy.run_path('app.py')"
        done = child(["-c", start], site, cwd=tmp_path, check=False, **env)
        return done.stdout, done.stderr

    def test_it_is_one_line(self) -> None:
        assert self.LINE.startswith("import ") and self.LINE.count("\n") == 1

    @pytest.mark.parametrize("env", [{}, {"V1_COMPAT": ""}, {"V1_COMPAT": "off"}], ids=["unset", "empty", "off"])
    def test_without_the_variable_nothing_is_imported(
        self, child: Any, small_vllm: Path, tmp_path: Path, env: dict[str, str]
    ) -> None:
        out, err = self.run(child, tmp_path, small_vllm, **env)
        assert out == "False\n" and "ImportError: cannot import name 'cdiv'" in err

    def test_with_it_legacy_names_are_served(self, child: Any, small_vllm: Path, tmp_path: Path) -> None:
        out, err = self.run(child, tmp_path, small_vllm, V1_COMPAT="warn")
        assert out == "True\n" and "app.py:3: RemovedIn0_11_1Warning" in err and "Traceback" not in err

    def test_a_bad_value_is_said_and_the_program_runs(self, child: Any, small_vllm: Path, tmp_path: Path) -> None:
        out, err = self.run(child, tmp_path, small_vllm, V1_COMPAT="yes")
        assert out == "True\n" and "V1_COMPAT='yes'" in err and "off, warn, error, report" in err

    def test_the_wheel_has_it_at_its_top(self) -> None:
        import tomllib

        wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
        assert wheel["force-include"] == {"compat/v1_compat.pth": "v1_compat.pth"}


class TestPytestPlugin:
    def run(self, child: Any, tmp_path: Path, site: Path, *arguments: str, **env: str) -> tuple[int, str]:
        (tmp_path / "conftest.py").write_text("from vllm.utils import cdiv\n")
        (tmp_path / "test_it.py").write_text("def test_it():\n    from vllm.worker.cpu_worker import CPUWorker\n")
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "v1_compat.pytest_plugin", *arguments]
        done = child(command, site, cwd=tmp_path, check=False, **env)
        return done.returncode, done.stdout + done.stderr

    def test_the_suite_runs_and_its_names_are_listed(self, child: Any, small_vllm: Path, tmp_path: Path) -> None:
        code, out = self.run(child, tmp_path, small_vllm)
        assert code == 0 and "1 passed" in out
        assert "V1M001  vllm.utils.cdiv" in out and "V1M003  vllm.worker.cpu_worker.CPUWorker" in out
        assert "test_it.py:2: RemovedIn0_10_0Warning" in out

    def test_without_legacy_names_it_says_nothing(self, child: Any, small_vllm: Path, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "test_other.py").write_text("def test_other(): pass\n")
        command = ["-m", "pytest", "-q", "-p", "v1_compat.pytest_plugin", "other"]
        assert "legacy vLLM names" not in child(command, small_vllm, cwd=tmp_path / "other" / "..", check=False).stdout

    @pytest.mark.parametrize(
        ("arguments", "env", "code", "says"),
        [
            (["--v1-compat=error"], {}, 4, "RemovedIn0_11_1Warning"),
            (["--v1-compat=warn"], {"V1_COMPAT": "off"}, 4, "cannot import name 'cdiv'"),
            (["--v1-compat=yes"], {}, 4, "--v1-compat='yes' is no mode"),
        ],
        ids=["error", "the variable wins", "bad value"],
    )
    def test_modes(
        self,
        child: Any,
        small_vllm: Path,
        tmp_path: Path,
        arguments: list[str],
        env: dict[str, str],
        code: int,
        says: str,
    ) -> None:
        found, out = self.run(child, tmp_path, small_vllm, *arguments, **env)
        assert found == code and says in out


def test_a_run_of_pytest_in_a_program_leaves_the_shim_uninstalled(child: Any, vllm: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    from vllm.utils import cdiv\n")
    code = (
        "import pytest, v1_compat\n"
        "assert pytest.main(['-q', '-p', 'v1_compat.pytest_plugin', 'test_it.py']) == 0\n"
        "print('afterwards:', v1_compat.mode())\n"
    )
    output = child(["-c", code], vllm.parent, cwd=tmp_path).stdout
    assert "vllm.utils.cdiv" in output and "afterwards: off" in output


@pytest.mark.parametrize("shown", [20, 1])
def test_named_in_a_conftest_it_serves_and_lists_the_most_used_first(
    child: Any, vllm: Path, tmp_path: Path, shown: int
) -> None:
    conftest = (
        f'pytest_plugins = ["v1_compat.pytest_plugin"]\nimport v1_compat.pytest_plugin as p\np._SHOWN = {shown}\n'
    )
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_it.py").write_text(
        "def test_it():\n"
        "    from vllm.utils import run_once\n"
        "    for _ in range(3):\n"
        "        from vllm.utils import cdiv\n"
    )
    output = child(["-m", "pytest", "-q", "test_it.py"], vllm.parent, cwd=tmp_path).stdout
    listed = [line.split() for line in output.splitlines() if " V1M001 " in line and line.split()[0].isdigit()]
    wanted = [(3, "vllm.utils.cdiv"), (1, "vllm.utils.run_once")][:shown]
    assert [(int(count), name) for count, _, name in listed] == wanted
    assert ("and 1 more" in output) is (shown == 1)


def test_a_mode_that_does_not_exist_is_one_line_and_not_a_traceback(child: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')\n")
    done = child(["-m", "v1_compat", "script.py"], cwd=tmp_path, check=False, V1_COMPAT="loud")
    assert done.returncode == 2 and not done.stdout
    assert "'loud' is no mode" in done.stderr and "Traceback" not in done.stderr
