"""Places that turn V1 on, and places that ask for V0."""

from __future__ import annotations

import pytest

from .harness import dedent, rewrite

TAKEN_OUT = [
    pytest.param('import os\nos.environ["VLLM_USE_V1"] = "1"\nimport vllm\n', "import vllm\n", id="before an import"),
    pytest.param(
        'import os\nos.environ["VLLM_USE_V1"] = str(1)\nx = os.sep\n', "import os\nx = os.sep\n", id="os stays"
    ),
    pytest.param('import os\nos.environ.setdefault("VLLM_USE_V1", "1")\n', "", id="setdefault"),
    pytest.param('import os\nos.environ.pop("VLLM_USE_V1", None)\n', "", id="pop"),
    pytest.param('import os\ndel os.environ["VLLM_USE_V1"]\n', "", id="del"),
    pytest.param('import os\nos.putenv("VLLM_USE_V1", "1")\n', "", id="putenv"),
    pytest.param('import os\nos.environ.update({"VLLM_USE_V1": "1"})\n', "", id="update with a dict of it alone"),
    pytest.param('import os\nos.environ.update(VLLM_USE_V1="1")\n', "", id="update with a keyword"),
    pytest.param(
        'import os\nos.environ.update({"VLLM_USE_V1": "1", "A": "2"})\n',
        'import os\nos.environ.update({"A": "2"})\n',
        id="update with more",
    ),
    pytest.param(
        'import os\nif "VLLM_USE_V1" in os.environ:\n    del os.environ["VLLM_USE_V1"]\n', "", id="if set, del"
    ),
    pytest.param("from vllm import envs\nenvs.set_vllm_use_v1(True)\n", "", id="set_vllm_use_v1"),
    pytest.param("from vllm import envs\nenvs.VLLM_USE_V1 = True\n", "", id="an attribute that is written"),
    pytest.param('x = {"VLLM_USE_V1": "1"}\n', "x = {}\n", id="the only entry of a dict"),
    pytest.param('x = {"VLLM_USE_V1": "1", **y}\n', "x = {**y}\n", id="the first entry"),
    pytest.param('x = {"a": 1, "VLLM_USE_V1": "1"}\n', 'x = {"a": 1}\n', id="the last entry"),
    pytest.param(
        'x = {\n    "a": 1,  # one\n    # V1 only\n    "VLLM_USE_V1": "1",  # on\n    # about b\n    "b": 2,\n}\n',
        'x = {\n    "a": 1,  # one\n    # about b\n    "b": 2,\n}\n',
        id="an entry with comments around it",
    ),
    pytest.param(
        'x = {"a": 1,\n     "VLLM_USE_V1": "1"\n     }\n', 'x = {"a": 1\n     }\n', id="the last entry without a comma"
    ),
    pytest.param('x = dict(VLLM_USE_V1="1", a=2)\n', "x = dict(a=2)\n", id="dict with keywords"),
    pytest.param(
        'r(runtime_env={"env_vars": {"VLLM_USE_V1": "1"}})\n',
        'r(runtime_env={"env_vars": {}})\n',
        id="nested dict",  # B12
    ),
    pytest.param('env["VLLM_USE_V1"] = "1"\nrun(env)\n', "run(env)\n", id="an environment under another name"),
    pytest.param('def f():\n    env["VLLM_USE_V1"] = "1"\n', "def f():\n    pass\n", id="a body that becomes empty"),
    pytest.param('if a:\n    env["VLLM_USE_V1"] = "1"\nb()\n', "b()\n", id="an if that becomes empty"),
    pytest.param(
        'if f():\n    env["VLLM_USE_V1"] = "1"\nb()\n', "if f():\n    pass\nb()\n", id="its test has an effect"
    ),
    pytest.param(
        'if a:\n    b()\nelse:\n    env["VLLM_USE_V1"] = "1"\nc()\n', "if a:\n    b()\nc()\n", id="an empty else goes"
    ),
    pytest.param(
        'try:\n    env["VLLM_USE_V1"] = "1"\nfinally:\n    f()\n',
        "try:\n    pass\nfinally:\n    f()\n",
        id="an empty try",
    ),
    pytest.param('a(); env["VLLM_USE_V1"] = "1"; b()\n', "a(); b()\n", id="between semicolons"),
    pytest.param('env["VLLM_USE_V1"] = "1"; b()\n', "b()\n", id="before a semicolon"),
    pytest.param('a(); env["VLLM_USE_V1"] = "1"\n', "a()\n", id="behind a semicolon"),
    pytest.param('if a: env["VLLM_USE_V1"] = "1"\n', "", id="on the line of its if"),
    pytest.param('x = 1\n\nenv["VLLM_USE_V1"] = "1"\n\ny = 2\n', "x = 1\n\ny = 2\n", id="one blank line stays of two"),
    pytest.param(
        'x = 1\n# Use the V1 engine\nenv["VLLM_USE_V1"] = "1"\n# Two\ny = 2\n',
        "x = 1\n# Two\ny = 2\n",
        id="its comment goes",
    ),
    pytest.param(
        'x = 1\n# One process\nenv["VLLM_USE_V1"] = "1"\nenv["B"] = "0"\n',
        'x = 1\n# One process\nenv["B"] = "0"\n',
        id="a comment about something else stays",
    ),
]


@pytest.mark.parametrize("before, after", TAKEN_OUT)
def test_taken_out(before: str, after: str) -> None:
    outcome = rewrite(before, "0.11.2", folds=True)
    assert outcome.text == after
    assert outcome.said("V1M202") or outcome.said("V1M201")
    assert not outcome.open


IN_TESTS = [
    pytest.param(
        """
        def test_a(monkeypatch, model):
            monkeypatch.setenv("VLLM_USE_V1", "1")
            run(model)
        """,
        """
        def test_a(model):
            run(model)
        """,
        id="setenv, and the fixture nothing needs",
    ),
    pytest.param(
        """
        def test_a(monkeypatch):
            monkeypatch.setenv("VLLM_USE_V1", "1")
            monkeypatch.setenv("VLLM_PORT", "1")
        """,
        """
        def test_a(monkeypatch):
            monkeypatch.setenv("VLLM_PORT", "1")
        """,
        id="the fixture stays for another variable",
    ),
    pytest.param(
        """
        def test_a(
            monkeypatch: pytest.MonkeyPatch,
            model: str,  # which
        ):
            with monkeypatch.context() as m:
                m.setenv("VLLM_USE_V1", "1")

                # how
                run(model,
                    1)
        """,
        """
        def test_a(
            model: str,  # which
        ):
            # how
            run(model,
                1)
        """,
        id="a with that did nothing else",
    ),
    pytest.param(
        """
        def test_a(monkeypatch):
            with monkeypatch.context() as m:
                m.setenv("VLLM_USE_V1", "1")
                m.setenv("OTHER", "1")
        """,
        """
        def test_a(monkeypatch):
            with monkeypatch.context() as m:
                m.setenv("OTHER", "1")
        """,
        id="a with that does more",  # B7
    ),
    pytest.param(
        """
        def test_a(monkeypatch):
            with monkeypatch.context() as m, ExitStack() as after:
                m.setenv("VLLM_USE_V1", "1")
                after.push(f)
        """,
        """
        def test_a():
            with ExitStack() as after:
                after.push(f)
        """,
        id="a with of two items keeps the second",  # B7
    ),
    pytest.param(
        """
        def test_a(monkeypatch):
            # Remove monkeypatch once V1 can be
            # tested otherwise.
            with monkeypatch.context() as m, ExitStack() as after:
                m.setenv("VLLM_USE_V1", "1")
                after.push(f)
        """,
        """
        def test_a():
            with ExitStack() as after:
                after.push(f)
        """,
        id="a remark about the item goes with it",
    ),
    pytest.param(
        """
        def test_a(monkeypatch):
            with (
                patch("a.b") as p,
                monkeypatch.context() as m,
            ):
                m.setenv("VLLM_USE_V1", "1")
                p()
        """,
        """
        def test_a():
            with (
                patch("a.b") as p,
            ):
                p()
        """,
        id="a with in parentheses keeps the first",
    ),
    pytest.param(
        """
        def test_a(monkeypatch):
            with monkeypatch.context() as m:
                m.setenv("VLLM_USE_V1", "1")
                a()
            with monkeypatch.context() as m:
                m.setenv("OTHER", "1")
        """,
        """
        def test_a(monkeypatch):
            a()
            with monkeypatch.context() as m:
                m.setenv("OTHER", "1")
        """,
        id="two of the same name, one goes",
    ),
    pytest.param(
        """
        import pytest

        @pytest.fixture(autouse=True)
        def v1(monkeypatch):
            '''Only V1.'''
            with monkeypatch.context() as m:
                m.setenv("VLLM_USE_V1", "1")
                yield


        def test_a():
            run()
        """,
        """
        def test_a():
            run()
        """,
        id="an autouse fixture, and pytest with it",
    ),
    pytest.param(
        """
        def _make(model, monkeypatch, *, eager=False):
            monkeypatch.setenv("VLLM_USE_V1", "1")
            return model

        def test_a(monkeypatch):
            _make(1, monkeypatch, eager=True)
            _make(2, monkeypatch=monkeypatch)
        """,
        """
        def _make(model, *, eager=False):
            return model

        def test_a():
            _make(1, eager=True)
            _make(2)
        """,
        id="a helper hands the fixture on",
    ),
    pytest.param(
        """
        @pytest.fixture(scope="module")
        def monkeypatch_module():
            patch = MonkeyPatch()
            yield patch
            patch.undo()


        @pytest.fixture(scope="module")
        def server(monkeypatch_module, port):
            monkeypatch_module.setenv("VLLM_USE_V1", "1")
            yield start(port)
        """,
        """
        @pytest.fixture(scope="module")
        def server(port):
            yield start(port)
        """,
        id="a fixture that hands out a monkeypatch",
    ),
    pytest.param(
        """
        def test_a(monkeypatch):
            monkeypatch.delenv("VLLM_USE_V1", raising=False)
            monkeypatch.setattr("vllm.envs.VLLM_USE_V1", True)
            run()
        """,
        """
        def test_a():
            run()
        """,
        id="delenv and setattr",
    ),
    pytest.param(
        """
        from unittest.mock import patch
        import os

        def test_a():
            with patch.dict(os.environ, {"VLLM_USE_V1": "1"}):
                run()
        """,
        """
        def test_a():
            run()
        """,
        id="patch.dict of nothing",
    ),
]


@pytest.mark.parametrize("before, after", IN_TESTS)
def test_taken_out_of_tests(before: str, after: str) -> None:
    outcome = rewrite(dedent(before), "0.11.2", rel="test_module.py", folds=True)
    assert outcome.text == dedent(after)
    assert outcome.said("V1M202")


RAY = "import ray\n"
OF_RAY = "from ray.serve.llm import LLMConfig\n"
RUN = "import os\nimport subprocess\n"
CONTAINERS = [
    pytest.param(
        OF_RAY
        + 'x = LLMConfig(\n    a=1,\n    # V1\n    runtime_env={"env_vars": {"VLLM_USE_V1": "1"}},\n    b=2,\n)\n',
        OF_RAY + "x = LLMConfig(\n    a=1,\n    b=2,\n)\n",
        id="an environment of ray's that holds nothing more",
    ),
    pytest.param(
        RAY + 'ray.init(runtime_env={"env_vars": {"VLLM_USE_V1": "1"}, "pip": ["x"]})\n',
        RAY + 'ray.init(runtime_env={"pip": ["x"]})\n',
        id="one that holds more",
    ),
    pytest.param(
        RAY + 'ray.init(runtime_env={"env_vars": {"VLLM_USE_V1": "1", "A": "2"}})\n',
        RAY + 'ray.init(runtime_env={"env_vars": {"A": "2"}})\n',
        id="one with another variable",
    ),
    pytest.param(
        RAY + '@ray.remote(runtime_env={"env_vars": {"VLLM_USE_V1": "1"}})\nclass A: ...\n',
        RAY + "@ray.remote\nclass A: ...\n",
        id="the only argument of ray.remote, which takes no empty parentheses",
    ),
    pytest.param(
        RAY + 'a = A.options(runtime_env={"env_vars": {"VLLM_USE_V1": "1"}})\n',
        RAY + 'a = A.options(runtime_env={"env_vars": {}})\n',
        id="options, where an empty one replaces the class's own",
    ),
    pytest.param(
        RAY + 'ray.init(job_config=c, runtime_env={"env_vars": {"VLLM_USE_V1": "1"}})\n',
        RAY + 'ray.init(job_config=c, runtime_env={"env_vars": {}})\n',
        id="beside a job's configuration, which it replaces",
    ),
    pytest.param(
        RUN + 'subprocess.run(c, env={**os.environ, "VLLM_USE_V1": "1"}, check=True)\n',
        "import subprocess\nsubprocess.run(c, check=True)\n",
        id="a child's environment that is our own",
    ),
    pytest.param(
        RUN + 'subprocess.Popen(c, env=dict(os.environ, VLLM_USE_V1="1"))\n',
        "import subprocess\nsubprocess.Popen(c)\n",
        id="our own, as dict(os.environ)",
    ),
    pytest.param(
        RUN + 'subprocess.run(c, env={**os.environ, **{"VLLM_USE_V1": "1"}})\n',
        "import subprocess\nsubprocess.run(c)\n",
        id="our own, with a spread dict of it alone",
    ),
    pytest.param(
        RUN + 'subprocess.run(c, env={"VLLM_USE_V1": "1"}, cwd=os.sep)\n',
        RUN + "subprocess.run(c, env={}, cwd=os.sep)\n",
        id="an empty environment of a child is not our own",
    ),
    pytest.param(
        RUN + 'subprocess.run(c, env={**os.environ, "A": "1", "VLLM_USE_V1": "1"})\n',
        RUN + 'subprocess.run(c, env={**os.environ, "A": "1"})\n',
        id="a child's environment with another variable",
    ),
    pytest.param(
        RUN + 'mine(c, env={**os.environ, "VLLM_USE_V1": "1"})\n',
        RUN + "mine(c, env={**os.environ})\n",
        id="the same keyword of somebody else's function",
    ),
    pytest.param(
        'from tests.utils import RemoteOpenAIServer\nRemoteOpenAIServer(m, [], env_dict={"VLLM_USE_V1": "1"})\n',
        "from tests.utils import RemoteOpenAIServer\nRemoteOpenAIServer(m, [])\n",
        id="variables of a server under test",
    ),
    pytest.param(
        'from mine import RemoteOpenAIServer\nRemoteOpenAIServer(m, [], env_dict={"VLLM_USE_V1": "1"})\n',
        "from mine import RemoteOpenAIServer\nRemoteOpenAIServer(m, [], env_dict={})\n",
        id="of a server of one's own",
    ),
    pytest.param(
        "from tests.utils import RemoteOpenAIServer\n"
        'def f():\n    env = dict(VLLM_USE_V1="1")\n    with RemoteOpenAIServer(m, [], env_dict=env) as s:\n        yield s\n',
        "from tests.utils import RemoteOpenAIServer\ndef f():\n    with RemoteOpenAIServer(m, []) as s:\n        yield s\n",
        id="variables of a server under a name",
    ),
    pytest.param(
        "from tests.utils import RemoteOpenAIServer\n"
        'def f():\n    env = {"VLLM_USE_V1": "1"}\n    env.update(x)\n    RemoteOpenAIServer(m, [], env_dict=env)\n',
        "from tests.utils import RemoteOpenAIServer\n"
        "def f():\n    env = {}\n    env.update(x)\n    RemoteOpenAIServer(m, [], env_dict=env)\n",
        id="a name to which something is added",
    ),
    pytest.param('f(1, **{"VLLM_USE_V1": "1"})\n', "f(1)\n", id="keywords from a dict of it alone"),
    pytest.param(
        'import os\nfrom unittest import mock\n@mock.patch.dict(os.environ, {"VLLM_USE_V1": "1"})\ndef test_a(): f()\n',
        "def test_a(): f()\n",
        id="a decorator that patches nothing",
    ),
    pytest.param(
        "import os\nfrom unittest import mock\n"
        '@mock.patch.dict(os.environ, {"VLLM_USE_V1": "1"})\ndef test_a(): os.environ["A"] = "1"\n',
        'import os\nfrom unittest import mock\n@mock.patch.dict(os.environ, {})\ndef test_a(): os.environ["A"] = "1"\n',
        id="a decorator that also puts back what the function sets",
    ),
    pytest.param(
        "import os\nfrom unittest import mock\n"
        'with mock.patch.dict(os.environ, {"VLLM_USE_V1": "1"}):\n    os.environ["A"] = "1"\n',
        'import os\nfrom unittest import mock\nwith mock.patch.dict(os.environ, {}):\n    os.environ["A"] = "1"\n',
        id="a with that also puts back what its body sets",
    ),
]


@pytest.mark.parametrize("before, after", CONTAINERS)
def test_what_held_only_the_switch(before: str, after: str) -> None:
    outcome = rewrite(before, "0.11.2", folds=True)
    assert outcome.text == after
    assert outcome.said("V1M202")


LEFT_ALONE = [
    pytest.param('assert env == {"VLLM_USE_V1": "1"}\n', "V1M202", id="a dict that is compared"),
    pytest.param('x = {"VLLM_USE_V1": flag}\n', "V1M202", id="a computed entry"),
    pytest.param('import os\nos.environ["VLLM_USE_V1"] = flag\n', "V1M202", id="a computed value"),
    pytest.param('x = {"VLLM_USE_V1": "1"}\ny = x["VLLM_USE_V1"]\n', "V1M202", id="the entry is read elsewhere"),
    pytest.param('x = {"VLLM_USE_V1": "0"}\n', "V1M203", id="an entry that asks for V0"),
    pytest.param('import os\nos.environ["VLLM_USE_V1"] = "0"\n', "V1M203", id="the environment asks for V0"),
    pytest.param('def test_a(monkeypatch):\n    monkeypatch.setenv("VLLM_USE_V1", "0")\n', "V1M203", id="setenv to 0"),
    pytest.param("from vllm import envs\nenvs.set_vllm_use_v1(False)\n", "V1M203", id="set_vllm_use_v1(False)"),
    pytest.param('import os\nos.environ["VLLM_TARGET_DEVICE"] = "cpu"\n', "", id="a variable that is still valid"),
    pytest.param("def test_a(monkeypatch):\n    run()\n", "", id="a fixture that was unused before"),
    pytest.param(
        "def test_a(monkeypatch):\n    with monkeypatch.context() as m:\n        run()\n", "", id="idle before"
    ),
    pytest.param('f(VLLM_USE_V1="1")\n', "V1M202", id="a keyword of an unknown function"),
]


@pytest.mark.parametrize("text, rule", LEFT_ALONE)
def test_left_alone(text: str, rule: str) -> None:
    outcome = rewrite(text, "0.11.2")
    assert outcome.text == text
    assert {finding.rule for finding in outcome.findings if finding.rule.startswith("V1M20")} == (
        {rule} if rule else set()
    )


def test_a_setting_to_0_is_never_deleted_in_silence() -> None:
    text = dedent(
        """
        import os
        os.environ["VLLM_USE_V1"] = "0"
        from vllm import SamplingParams

        params = SamplingParams(logits_processors=[ban])
        """
    )  # B3
    outcome = rewrite(text, "0.11.2")
    assert outcome.text == text
    assert "line 5: `logits_processors=`" in outcome.said("V1M203")[0].advice
    assert outcome.lines("V1M204") == [5]


OS = "import os\n"
DEFAULTS = [
    pytest.param(OS + 'os.environ["VLLM_USE_V1"] = os.environ.get("VLLM_USE_V1", "0")\n', id="a default of get"),
    pytest.param(OS + 'os.environ["VLLM_USE_V1"] = os.getenv("VLLM_USE_V1", "0").strip()\n', id="of getenv, stripped"),
    pytest.param(OS + 'os.environ["VLLM_USE_V1"] = os.getenv("VLLM_USE_V1") or "0"\n', id="behind an or"),
    pytest.param(
        OS + 'os.environ["VLLM_USE_V1"] = "1" if os.getenv("VLLM_USE_V1") else "0"\n', id="in a conditional expression"
    ),
    pytest.param(
        OS + 'if os.getenv("VLLM_USE_V1") is None:\n    os.environ["VLLM_USE_V1"] = "0"\n', id="if it is not set"
    ),
    pytest.param(
        OS + 'if "VLLM_USE_V1" not in os.environ:\n    os.environ["VLLM_USE_V1"] = "0"\n', id="if it is not there"
    ),
    pytest.param(
        OS + 'if os.getenv("VLLM_USE_V1", "") != "":\n    f()\nelse:\n    os.putenv("VLLM_USE_V1", "0")\n',
        id="else of a test for text",
    ),
    pytest.param(OS + 'if not os.getenv("VLLM_USE_V1"):\n    os.environ["VLLM_USE_V1"] = "0"\n', id="if it is empty"),
    pytest.param(OS + 'os.environ.setdefault("VLLM_USE_V1", "0")\n', id="setdefault"),
    pytest.param(OS + 'x = os.environ.setdefault("VLLM_USE_V1", "0")\n', id="setdefault whose value is used"),
    pytest.param(
        'from vllm import envs\nif not envs.is_set("VLLM_USE_V1"):\n    envs.set_vllm_use_v1(False)\n',
        id="is_set and set_vllm_use_v1",  # B5
    ),
]


@pytest.mark.parametrize("text", DEFAULTS)
def test_a_default_of_0_asks_for_v0(text: str) -> None:
    outcome = rewrite(text, "0.11.2")
    assert outcome.text == text
    assert [finding.fixed for finding in outcome.said("V1M203")] == [False]


@pytest.mark.parametrize("text", DEFAULTS)
def test_a_default_of_0_is_never_taken_out_in_silence(text: str) -> None:
    outcome = rewrite(text, "0.11.2", unsafe=True, folds=True)
    assert outcome.text == text or outcome.said("V1M203")


def test_a_setting_to_0_goes_when_unsafe_edits_are_asked_for() -> None:
    text = 'import os\nos.environ["VLLM_USE_V1"] = "0"\nx = os.sep\n'
    outcome = rewrite(text, "0.11.2", unsafe=True, folds=True)
    assert outcome.text == "import os\nx = os.sep\n"
    assert outcome.said("V1M203")[0].fixed


@pytest.mark.parametrize(
    "call, said",
    [
        pytest.param("LLM(m, num_scheduler_steps=8)", True, id="multi-step scheduling"),
        pytest.param("LLM(m, num_scheduler_steps=1)", False, id="its harmless value"),
        pytest.param("LLM(m, preemption_mode=None)", False, id="None means nothing"),
        pytest.param("SamplingParams(best_of=4)", True, id="best_of"),
        pytest.param("SamplingParams(n=4)", False, id="an argument that V1 has"),
        pytest.param("mine(best_of=4)", False, id="somebody else's function"),
    ],
)
def test_arguments_that_chose_v0(call: str, said: bool) -> None:
    text = f"from vllm import LLM, SamplingParams\nfrom mine import mine\n{call}\n"
    outcome = rewrite(text, "0.11.2", ignore=frozenset({"V1M112"}))
    assert outcome.text == text
    assert bool(outcome.said("V1M204")) is said


def test_a_select_without_the_rule_leaves_the_setting() -> None:
    text = 'import os\nos.environ["VLLM_USE_V1"] = "1"\n'
    assert rewrite(text, "0.11.2", ignore=frozenset({"V1M202"})).text == text


BRACKETED = """
import os

# Hack for both engines
if "VLLM_USE_V1" in os.environ:
    del os.environ["VLLM_USE_V1"]
{between}# end of the {what}

x = os.sep
"""


@pytest.mark.parametrize(
    ("between", "what", "goes"),
    [
        pytest.param("", "hack", True, id="nothing is left between them"),
        pytest.param("y = 1\n", "hack", False, id="something is"),
        pytest.param("", "world", False, id="the end of something else"),
    ],
)
def test_comments_that_bracket_what_goes_go_with_it(between: str, what: str, goes: bool) -> None:
    text = BRACKETED.lstrip().format(between=between, what=what)
    after = rewrite(text, "0.32.0", folds=True).text
    assert "VLLM_USE_V1" not in after
    assert ("# Hack" in after, "# end" in after) == (not goes, not goes)
