"""V1M409: fields of requests that the server ignores."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import dedent, rewrite
from v1_migrate.discover import Kind
from v1_migrate.engine.analyse import Analyser
from v1_migrate.engine.context import Settings
from v1_migrate.engine.tree import Tree
from v1_migrate.findings import Severity
from v1_migrate.names.index import Index
from v1_migrate.names.request_fields import ADVICE, lost_fields

HEAD = "import json\n\nimport requests\nfrom openai import OpenAI  # of a vllm server\n\n"
LINES = HEAD.count("\n")

FOUND = [
    pytest.param('client.create(extra_body={"guided_json": schema})\n', [1], id="extra_body"),
    pytest.param('client.create(extra_body=dict(guided_choice=["a"]))\n', [1], id="extra_body made by dict"),
    pytest.param('client.create(extra_body={"best_of": 2})\n', [1], id="a common name in extra_body"),
    pytest.param('body = {"best_of": 2}\nclient.create(extra_body=body)\n', [1], id="a common name by another"),
    pytest.param('client.completions.create(prompt="x", best_of=2)\n', [1], id="a parameter of OpenAI's client"),
    pytest.param('requests.post(url, json={"prompt": "x", "best_of": 2})\n', [1], id="the body of a request"),
    pytest.param('requests.post(url, data=json.dumps({"messages": [], "best_of": 2}))\n', [1], id="a body of text"),
    pytest.param(
        'body = {"guided_regex": "a+"}\nclient.create(extra_body=body)\n', [1], id="a name of vLLM's by another"
    ),
    pytest.param('body = {}\nbody["guided_grammar"] = g\npost(json=body)\n', [2], id="an item set"),
    pytest.param("body = {}\nbody.update(guided_json=g)\npost(json=body)\n", [2], id="update"),
    pytest.param('client.create(extra_body={"guided_json": a, "guided_whitespace_pattern": b})\n', [1, 1], id="two"),
    pytest.param('requests.post(url, data=\'{"prompt": "x", "best_of": 2}\')\n', [1], id="a body of JSON"),
    pytest.param(
        'BODY = """{\n  "messages": [],\n  "guided_json": {}\n}"""\n', [3], id="a body of JSON over several lines"
    ),
    pytest.param('x = "{\\"prompt\\": 1, \\"guided_json\\": {}}"\n', [1], id="a body of JSON with escapes"),
]

LEFT = [
    pytest.param('EngineArgs(**{"model": "m", "guided_decoding_backend": "x"})\n', id="an argument of the engine"),
    pytest.param('settings = {"best_of": 2}\n', id="a common name in a dictionary that asks nothing"),
    pytest.param('client.create(extra_body={"structured_outputs": {"json": schema}})\n', id="today's form"),
    pytest.param(
        'client.create(extra_body={"use_beam_search": True, "prompt_logprobs": 1})\n', id="what is still read"
    ),
    pytest.param('NEW = {"guided_json": "json", "guided_regex": "regex"}\n', id="a table of the new names"),
    pytest.param('x = request["guided_json"]\n', id="a read"),
    pytest.param("x = '{\"best_of\": 2}'\n", id="a common name in JSON that asks nothing"),
    pytest.param('x = "guided_json: a schema"\n', id="a sentence"),
    pytest.param("def f(guided_json): return g(guided_json=guided_json)\n", id="a parameter of one's own"),
    pytest.param("client.images.create(best_of=2)\n", id="another thing to create"),
    pytest.param(
        "import vllm\nfrom packaging.version import Version\n\n"
        'if Version(vllm.__version__) < Version("0.12"):\n    body["guided_json"] = 1\n',
        id="for an older release",
    ),
]


@pytest.mark.parametrize(("text", "lines"), FOUND)
def test_found(text: str, lines: list[int]) -> None:
    outcome = rewrite(HEAD + text)
    assert outcome.text == HEAD + text
    assert outcome.lines("V1M409") == [LINES + line for line in lines]
    assert {finding.severity for finding in outcome.said("V1M409")} == {Severity.WARNING}


@pytest.mark.parametrize("text", LEFT)
def test_left_alone(text: str) -> None:
    assert rewrite(HEAD + text).said("V1M409") == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('body = {"guided_regex": "a+"}\n', id="a dictionary"),
        pytest.param("x = '{\"guided_json\": {}}'\n", id="JSON"),
        pytest.param('def f(kw, raw):\n    kw["guided_json"] = raw.get("guided_json")\n', id="an item"),
    ],
)
def test_a_name_of_vllms_alone_is_information_where_nothing_shows_that_it_is_sent(text: str) -> None:
    (found,) = rewrite(HEAD + text).said("V1M409")
    assert found.severity is Severity.INFO
    assert found.advice.startswith("If this is sent")


def test_a_target_that_still_reads_the_field_says_nothing() -> None:
    text = HEAD + 'client.create(extra_body={"guided_json": schema, "logits_processors": []})\n'
    assert len(rewrite(text, "0.32.0").said("V1M409")) == 2
    assert [f.message for f in rewrite(text, "0.12.0").said("V1M409") if "logits" in f.message] == []
    assert rewrite(text, "0.11.0").said("V1M409") == []


def test_every_field_is_lost_on_the_newest_release_and_none_on_the_first() -> None:
    index = Index.load(user=False)
    assert lost_fields(index, index.releases[-1]) == ADVICE.keys()
    assert lost_fields(index, "0.11.0") - {"structural_tag"} == frozenset()


CURL = 'curl $URL -d \'{"prompt": "x", "guided_json": {}, "best_of": 2}\'  # vllm\n'
TEXTS = [
    pytest.param(Kind.SHELL, CURL, 2, Severity.WARNING, id="a script"),
    pytest.param(Kind.SHELL, 'curl -d "{\\"guided_json\\": {}}"  # vllm\n', 1, Severity.WARNING, id="quoted again"),
    pytest.param(Kind.JSON, '{"server": "vllm", "best_of": 1}\n', 0, Severity.WARNING, id="settings that ask nothing"),
    pytest.param(Kind.JSON, '{"model": "vllm", "guided_json": {}}\n', 1, Severity.WARNING, id="a body in JSON"),
    pytest.param(Kind.MARKDOWN, f"# vllm\n\n```bash\n{CURL}```\n", 2, Severity.INFO, id="a document"),
    pytest.param(
        Kind.MARKDOWN,
        '# vllm\n\n```python\ncall(extra_body={"guided_json": 1})\n```\n',
        1,
        Severity.INFO,
        id="Python in a document, said once",
    ),
]


@pytest.mark.parametrize(("kind", "text", "count", "severity"), TEXTS)
def test_texts(kind: Kind, text: str, count: int, severity: Severity) -> None:
    found = rewrite(text, kind=kind, check=False, rel="file").said("V1M409")
    assert [finding.severity for finding in found] == [severity] * count


def test_a_client_that_never_says_vllm_is_read(tmp_path: Path) -> None:
    from v1_migrate.discover import File

    path = tmp_path / "client.py"
    path.write_text(dedent('client.create(extra_body={"guided_json": schema})\n'))
    analyser = Analyser(Tree(tmp_path), Settings("0.32.0", "vllm"))
    assert [f.rule for f in analyser.file(File(path, "client.py", Kind.PYTHON)).findings] == ["V1M409"]
