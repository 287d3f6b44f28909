"""Each mistake in an experiment file is one line: the file, the field, and what is allowed."""

import json
import re
from pathlib import Path

import pytest

from scheduler.errors import ExperimentInvalid
from scheduler.experiment import load
from scheduler.sections import Experiment
from tests.experiments import write_experiment

STRATEGY = '[[strategies]]\nname = "baseline"\nkind = "single"'
PRICE = '[prices."sim-small"]\ninput_usd_per_1m = 0.15'
NAMES = "1 to 100 characters, no line breaks or other control characters"
TOP = f"Allowed: {', '.join(sorted(Experiment.model_fields))}."

# what is replaced in a good file, by what, and what is said
MISTAKES: dict[str, tuple[str, str, str]] = {
    "not TOML": (
        "tasks =",
        "tasks",
        "not TOML: Expected '=' after a key in a key/value pair (at line 2, column 7)",
    ),
    "a key twice": (
        "[model]",
        "[model]\n[model]",
        "not TOML: Cannot declare ('model',) twice (at line 8, column 7)",
    ),
    # keys
    "unknown key": ("run_id", "rum_id", f"rum_id: unknown key. Did you mean 'run_id'? {TOP}"),
    "unlike any key": ("run_id", "colour", f"colour: unknown key. {TOP}"),
    "unknown table": ("[model]", "[modell]", f"modell: unknown key. Did you mean 'model'? {TOP}"),
    "unknown key in a table": (
        "simulate =",
        "simulat =",
        "gateway.simulat: unknown key. Did you mean 'simulate'? "
        "Allowed: api_key_env, base_url, simulate, stream, timeout_s.",
    ),
    "unknown key of a price": (
        "input_usd_per_1m",
        "input_usd_per_1k",
        "prices.sim-small.input_usd_per_1k: unknown key. Did you mean 'input_usd_per_1m'? "
        "Allowed: cached_input_usd_per_1m, input_usd_per_1m, output_usd_per_1m.",
    ),
    "the key itself": (
        "simulate = true",
        'simulate = true\napi_key = "sk-secret"',
        "gateway.api_key: unknown key. Did you mean 'api_key_env'? "
        "Allowed: api_key_env, base_url, simulate, stream, timeout_s.",
    ),
    # what every experiment needs
    "no tasks": ('tasks = "tasks.jsonl"', "", "tasks: is missing; every experiment needs it."),
    "no gateway": ("[gateway]\nsimulate = true", "", "gateway: is missing; every experiment needs it."),
    "no model": ('name = "sim-small"', "", "model.name: is missing; every experiment needs it."),
    "no strategies": (STRATEGY, "", "strategies: is missing; every experiment needs it."),
    "no strategy's kind": (
        'kind = "single"',
        "",
        "strategies.1.kind: is missing; every experiment needs it.",
    ),
    "one strategy in single brackets": (
        "[[strategies]]",
        "[strategies]",
        "strategies: must be a list of tables: write [[strategies]], with double brackets.",
    ),
    "an empty list": (STRATEGY, "", "strategies: is missing; every experiment needs it."),
    "half a price": ("input_usd_per_1m = 0.15", "", "prices.sim-small.input_usd_per_1m: is missing;"),
    "a word for a price": (
        f"{PRICE}\noutput_usd_per_1m = 0.6",
        '[prices]\n"sim-small" = "free"',
        "prices.sim-small: must be a table, [prices.sim-small] (found 'free').",
    ),
    # names
    "run id with a slash": (
        'run_id = "test"',
        'run_id = "a/b"',
        "run_id: letters, digits, '.', '_' and '-' only, at most 100, the first a letter or digit (found 'a/b').",
    ),
    "run id that leads away": ('run_id = "test"', 'run_id = ".."', "(found '..')."),
    "run id with a line break": ('run_id = "test"', 'run_id = "a\\n"', "(found 'a\\n')."),
    "platform without a name": (
        "run_id",
        'source_platform = ""\nrun_id',
        f"source_platform: {NAMES} (found '').",
    ),
    "strategy with a control character": (
        '"baseline"',
        '"a\\u0007"',
        f"strategies.1.name: {NAMES} (found 'a\\x07').",
    ),
    "NUL in a model's name": (
        'name = "sim-small"',
        'name = "a\\u0000"',
        "model.name: holds a NUL character. Remove it.",
    ),
    "NUL in a prompt": (
        'kind = "single"',
        'kind = "single"\nprompt = "{goal}\\u0000"',
        "strategies[1].prompt: holds a NUL character. Remove it.",
    ),
    "NUL in the task file's name": ('"tasks.jsonl"', '"\\u0000"', "tasks: holds a NUL character. Remove it."),
    # gateway
    "two gateways": (
        "simulate = true",
        'simulate = true\nbase_url = "http://x"',
        "gateway: needs either base_url or simulate = true.",
    ),
    "no gateway's address": (
        "simulate = true",
        "stream = true",
        "gateway: needs either base_url or simulate = true.",
    ),
    "an address of another kind": (
        "simulate = true",
        'base_url = "ftp://x"',
        "gateway.base_url: must start with http:// or https:// and name a host.",
    ),
    "an address without a host": ("simulate = true", 'base_url = "https:///v1"', "and name a host."),
    "an address with a blank": ("simulate = true", 'base_url = "https://a/ b"', "and name a host."),
    "a password in the address": (
        "simulate = true",
        'base_url = "https://me:sk-secret@a/v1"',
        "gateway.base_url: must hold no user name or password; the key comes from the environment.",
    ),
    "a key for a variable's name": (
        "simulate = true",
        'base_url = "https://a"\napi_key_env = "sk-secret"',
        "gateway.api_key_env: the name of an environment variable: letters, digits and '_', not its value.",
    ),
    "no time at all": (
        "simulate = true",
        "simulate = true\ntimeout_s = 0",
        "gateway.timeout_s: Input should be greater than 0 (found 0).",
    ),
    "a time as text": (
        "simulate = true",
        'simulate = true\ntimeout_s = "9"',
        "gateway.timeout_s: Input should be a valid number (found '9').",
    ),
    "yes for true": (
        "simulate = true",
        'simulate = "yes"',
        "gateway.simulate: Input should be a valid boolean (found 'yes').",
    ),
    # numbers
    "hot": (
        "temperature = 0.0",
        "temperature = 3",
        "model.temperature: Input should be less than or equal to 2 (found 3).",
    ),
    "no tokens": (
        "max_tokens = 200",
        "max_tokens = 0",
        "model.max_tokens: Input should be greater than or equal to 1 (found 0).",
    ),
    "part of a token": (
        "max_tokens = 200",
        "max_tokens = 1.5",
        "model.max_tokens: Input should be a valid integer (found 1.5).",
    ),
    "true for a number": (
        "run_id",
        "repeats = true\nrun_id",
        "repeats: Input should be a valid integer (found True).",
    ),
    "never": (
        "run_id",
        "repeats = 0\nrun_id",
        "repeats: Input should be greater than or equal to 1 (found 0).",
    ),
    "a seed beyond all": (
        "run_id",
        f"seed = {2**63}\nrun_id",
        "seed: Input should be less than or equal to 9007199254740992",
    ),
    "a negative price": (
        "= 0.15",
        "= -1",
        "prices.sim-small.input_usd_per_1m: Input should be greater than or equal to 0 (found -1).",
    ),
    "an infinite price": (
        "= 0.15",
        "= inf",
        "prices.sim-small.input_usd_per_1m: Input should be a finite number (found inf).",
    ),
    "no requests": (
        "[model]",
        "[limits]\nrequests_per_minute = 0\n[model]",
        "limits.requests_per_minute: Input should be greater than or equal to 1",
    ),
    "a budget beyond all": (
        "[model]",
        f"[budget]\nrun_tokens = {10**18}\n[model]",
        "budget.run_tokens: Input should be less than or equal to",
    ),
    "no budget": (
        "[model]",
        "[budget]\nrun_cost_usd = 0\n[model]",
        "budget.run_cost_usd: Input should be greater than 0 (found 0).",
    ),
    "no try": (
        "[model]",
        "[retries]\nmax_tries = 0\n[model]",
        "retries.max_tries: Input should be greater than or equal to 1",
    ),
    "an endless wait": (
        "[model]",
        "[retries]\nbackoff_s = inf\n[model]",
        "retries.backoff_s: Input should be a finite number (found inf).",
    ),
    "no threshold": (
        "[model]",
        "[analysis]\nthreshold_elo_per_1k = nan\n[model]",
        "analysis.threshold_elo_per_1k: Input should be a finite number",
    ),
    "a day for a file": ('"tasks.jsonl"', "2020-01-01", "tasks: Input should be a valid string."),
    # what belongs together
    "unknown kind": (
        'kind = "single"',
        'kind = "singel"',
        "strategies.1 ('baseline'): unknown strategy kind 'singel', did you mean 'single'?; kinds: single,",
    ),
    "unknown parameter": (
        'kind = "single"',
        'kind = "single"\nk = 3',
        "strategies.1 ('baseline'): strategy kind 'single': unknown parameter 'k'; parameters: model,",
    ),
    "a prompt without the task": (
        'kind = "single"',
        'kind = "single"\nprompt = "hello"',
        "the placeholder {goal} is missing",
    ),
    "one name twice": (
        STRATEGY,
        f"{STRATEGY}\n{STRATEGY}",
        "strategies.2: a second strategy named 'baseline'.",
    ),
    "a judge of no kind": (
        STRATEGY,
        f'{STRATEGY}\n[[judges]]\nname = "j"\nkind = "pair"',
        "judges.1 ('j'): unknown judge kind 'pair', did you mean 'pairwise'?; kinds: pairwise, listwise, rubric",
    ),
    "a judge's parameter": (
        STRATEGY,
        f'{STRATEGY}\n[[judges]]\nname = "j"\nkind = "rubric"\npairs = "all"',
        "judges.1 ('j'): judge kind 'rubric': unknown parameter 'pairs'; parameters: model,",
    ),
    "two judges of one name": (
        STRATEGY,
        STRATEGY + '\n[[judges]]\nname = "j"\nkind = "rubric"' * 2,
        "judges.2: the name 'j' is a second judge's. Change it.",
    ),
    "a judge called people": (
        STRATEGY,
        f'{STRATEGY}\n[[judges]]\nname = "people"\nkind = "rubric"',
        "judges.1: the name 'people' is a word with a meaning of its own. Change it.",
    ),
    "one pair of brackets for judges": (
        STRATEGY,
        f'{STRATEGY}\n[judges]\nname = "j"\nkind = "rubric"',
        "judges: must be a list of tables: write [[judges]], with double brackets.",
    ),
    "a ranking by nobody": (
        "[model]",
        '[ranking]\nuse = "referee"\n[model]',
        "ranking.use: no judge is named 'referee'. Allowed: checks, score, people.",
    ),
    "a strategy called tie": (
        STRATEGY,
        STRATEGY.replace("baseline", "tie") + '\n[[judges]]\nname = "j"\nkind = "rubric"',
        "strategies.1: a verdict that nobody wins is called 'tie'. Rename the strategy.",
    ),
    "a judge without a price in a budget": (
        STRATEGY,
        f'{STRATEGY}\n[budget]\nrun_cost_usd = 1\n[[judges]]\nname = "j"\nkind = "rubric"\nmodel = "big"',
        'budget: a budget in USD needs a price for every model; add [prices."big"].',
    ),
    "a baseline that is none": (
        "[model]",
        '[analysis]\nbaseline = "base"\n[model]',
        "analysis.baseline: no strategy is named 'base'. Did you mean 'baseline'? Strategies: baseline.",
    ),
    "a budget without prices": (
        '[prices."sim-small"]',
        '[budget]\nrun_cost_usd = 1\n[prices."other"]',
        'budget: a budget in USD needs a price for every model; add [prices."sim-small"].',
    ),
    # placeholders of the examples
    "a placeholder": (
        'name = "sim-small"',
        'name = "<model>"',
        "model.name = '<model>' is a placeholder. Fill in your own value.",
    ),
    "a placeholder as a key": (
        '[prices."sim-small"]',
        '[prices."<model>"]',
        "prices.<model> = '<model>' is a placeholder.",
    ),
    "a placeholder in a list": (
        'kind = "single"',
        'kind = "single"\nprompt = "<prompt>"',
        "strategies[1].prompt = '<prompt>' is a placeholder.",
    ),
    "no task file": (
        '"tasks.jsonl"',
        '"none.jsonl"',
        "none.jsonl: cannot be read (No such file or directory). Name a task file in `tasks`.",
    ),
}


def refusal(path: Path) -> str:
    with pytest.raises(ExperimentInvalid) as refused:
        load(path)
    return str(refused.value)


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_with_its_field(tmp_path: Path, case: str) -> None:
    old, new, message = MISTAKES[case]
    path = write_experiment(tmp_path)
    good = path.read_text()
    assert good.count(old) >= 1
    path.write_text(good.replace(old, new, 1))
    said = refusal(path)
    assert message in said
    assert said.startswith(str(tmp_path))
    assert "\n" not in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory). Name an experiment file."),
        (b"\xff\xfe", "byte 0 is no UTF-8. Save the file as UTF-8."),
        (b"", "is missing; every experiment needs it."),
    ],
)
def test_a_file_that_is_no_experiment_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    assert message in refusal(path)
    assert "mine.toml: " in refusal(path)


def test_a_folder_is_no_experiment(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: cannot be read (Is a directory). Name an experiment file."


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = write_experiment(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load(path).run_id == "test"


@pytest.mark.parametrize("url", ["ftp://x", "https://me:sk-secret@a/v1", "taotoken.net/api"])
def test_an_address_from_the_environment_is_held_to_the_same_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("TAOTOKEN_BASE_URL", url)
    said = refusal(write_experiment(tmp_path, gateway='[gateway]\nbase_url = "https://a"\n'))
    assert said.startswith("TAOTOKEN_BASE_URL in the environment: must ")
    assert "secret" not in said


def test_an_address_is_used_exactly_as_given_and_the_environment_s_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_experiment(tmp_path, gateway='[gateway]\nbase_url = "https://taotoken.net/api"\n')
    monkeypatch.delenv("TAOTOKEN_BASE_URL", raising=False)
    assert load(path).base_url == "https://taotoken.net/api"
    monkeypatch.setenv("TAOTOKEN_BASE_URL", "http://127.0.0.1:8080/x/")
    assert load(path).base_url == "http://127.0.0.1:8080/x/"


def test_what_may_be_is_left_alone(tmp_path: Path) -> None:
    """Integers where numbers are asked for, markup in prompts, and models without a price."""
    path = write_experiment(
        tmp_path,
        top="seed = 7\nrepeats = 3",
        more='[budget]\nrun_tokens = 1000000\n[limits]\nconcurrency = 8\n[analysis]\nbaseline = "baseline"\n',
        strategies=STRATEGY.replace(
            '"single"', '"single"\nmodel = "other"\nprompt = "<task>{goal}</task> {files}"'
        ),
    )
    loaded = load(path)
    assert loaded.warnings == ["No price for other: cost stays unknown."]
    assert loaded.strategies[0].strategy.model == "other"
    json.dumps(loaded.document(), allow_nan=False)


def test_a_run_without_a_name_is_named_by_its_content(tmp_path: Path) -> None:
    path = write_experiment(tmp_path)
    path.write_text(path.read_text().replace('run_id = "test"\n', ""))
    first = load(path).run_id
    assert re.fullmatch(r"experiment-[0-9a-f]{8}", first)
    assert load(path).run_id == first
    # Comments and the order of tables are no content; a task's goal, a prompt and a price are.
    path.write_text("# mine\n" + path.read_text())
    assert load(path).run_id == first
    tasks = (tmp_path / "tasks.jsonl").read_text()
    (tmp_path / "tasks.jsonl").write_text(tasks.replace("what is 1", "what was 1"))
    assert load(path).run_id != first
    (tmp_path / "tasks.jsonl").write_text(tasks)
    for old, new in [
        ("0.15", "0.16"),
        ("max_tokens = 200", "max_tokens = 201"),
        ('"single"', '"single"\nprompt = "{goal}"'),
    ]:
        text = path.read_text()
        path.write_text(text.replace(old, new))
        assert load(path).run_id != first
        path.write_text(text)
    # A run that may go on with other limits keeps its name.
    path.write_text(path.read_text() + "\n[limits]\nconcurrency = 5\n")
    assert load(path).run_id == first


@pytest.mark.parametrize(("stem", "name"), [("my eval!", "my-eval"), ("...", "run"), ("x" * 200, "x" * 80)])
def test_the_name_made_from_a_file_s_name_is_a_good_one(tmp_path: Path, stem: str, name: str) -> None:
    path = write_experiment(tmp_path)
    text = path.read_text().replace('run_id = "test"\n', "")
    path = tmp_path / f"{stem}.toml"
    path.write_text(text)
    assert load(path).run_id.rpartition("-")[0] == name


def test_a_name_given_by_hand_is_held_to_the_same_rule(tmp_path: Path) -> None:
    path = write_experiment(tmp_path)
    assert load(path, run_id="mine.2").run_id == "mine.2"
    for name in ("a/b", "", "x\n", ".a"):
        if name:
            with pytest.raises(ExperimentInvalid, match="letters, digits"):
                load(path, run_id=name)


def test_tiers_follow_the_file_s_order_within_their_family(tmp_path: Path) -> None:
    strategies = "\n".join(
        f'[[strategies]]\nname = "{name}"\nkind = "{kind}"\n{more}'
        for name, kind, more in [
            ("a", "single", ""),
            ("sc3", "self_consistency", "k = 3\ntemperature = 0.7\n"),
            ("b", "single", 'family = "votes"\n'),
            ("sc5", "self_consistency", "k = 5\ntemperature = 0.7\n"),
        ]
    )
    loaded = load(write_experiment(tmp_path, strategies=strategies))
    assert [(s.name, s.family, s.tier) for s in loaded.strategies] == [
        ("a", "single", 1),
        ("sc3", "self_consistency", 1),
        ("b", "votes", 1),
        ("sc5", "self_consistency", 2),
    ]
