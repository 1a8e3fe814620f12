"""Small Python files to plant mutants in: each has another shape of surroundings."""

from __future__ import annotations

SOURCES = (
    '"""A module with a docstring."""\n\nfrom __future__ import annotations\n\nimport json\n\n\ndef load(text):\n'
    "    # parse it\n    return json.loads(text)\n",
    "import os\n\nif os.name == 'posix':\n    SEP = '/'\nelif os.name == 'nt':\n    SEP = '\\\\'\nelse:\n    SEP = ':'\n",
    "class Shape:\n    sides = 4\n\n    @property\n    def area(self):\n        with open('a') as handle:\n"
    "            return handle.read()\n\n    async def wait(self):\n        async for item in self:\n            yield item\n",
    "try:\n    import tomllib\nexcept ImportError:\n    tomllib = None\nelse:\n    VERSION = 1\nfinally:\n    DONE = True\n",
    "def tabs(x):\n\tif x:\n\t\treturn [y for y in x]\n\twhile x:\n\t\tx -= 1\n\telse:\n\t\tx = 2\n\treturn x\n",
    "X = 1; Y = 2\nfor Z in (X, Y): print(Z)\n\n\ndef outer():\n    def inner():\n        nonlocal_value = 3\n        return nonlocal_value\n    return inner\n",
    "def choose(x):\n    match x:\n        case {'a': 1}:\n            return 1\n        case [1, *rest]:\n            return rest\n        case _:\n            return None\n",
    "",
)
