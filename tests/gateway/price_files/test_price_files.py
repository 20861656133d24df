"""Export and import of prices: exact both ways, refused with place and reason, never half."""

import datetime
import json
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from billing.core.prices import PART_NAMES, PriceParts, Tier
from billing.models import CostPrice, GroupMultiplier, Price
from billing.services.prices import cost_price_set, group_multiplier_set, price_close, price_set
from channels_admin.selectors import config_version
from gateway.price_files.exporting import export_text
from gateway.price_files.importing import import_file
from gateway.price_files.tables import Format
from gateway.provisioning import ProvisioningRefused
from tests.factories.channels import a_channel

pytestmark = pytest.mark.django_db

NEW_YEAR = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
LATER = datetime.datetime(2027, 3, 1, 8, 30, 0, 123456, tzinfo=datetime.UTC)
FORMATS = list(Format)
COLUMNS = ("model", "group", "effective_from", *PART_NAMES, "tiers", "image_rates")


def usd_of_each_part() -> PriceParts:
    return PriceParts(**{name: Decimal(f"{at}.{at:09d}") for at, name in enumerate(PART_NAMES)})


@pytest.fixture
def channel():
    return a_channel(name="Nord, “zwei”")


@pytest.fixture
def everything(channel):
    """One of each kind, and what formats trip over."""
    tiers = (
        Tier(200_000, PriceParts(input=Decimal("2.5"))),
        Tier(1000, PriceParts(output=Decimal("0.000000001"))),
    )
    rates = {"1024x1024/high": Decimal("0.167"), "low": Decimal(0)}
    price_set(model="all", parts=usd_of_each_part(), effective_from=NEW_YEAR, tiers=tiers, image_rates=rates)
    price_set(model="dear", parts=PriceParts(input=Decimal("999999.999999999")), effective_from=LATER)
    price_set(model="free", parts=PriceParts(input=Decimal(0)), effective_from=NEW_YEAR, group="vip")
    for name in ("123", "on", "a,b;c", 'quo"te', "ünï:codé", "gpt-*", "*", "/v1/rerank", "#1", "=1+1", "1e5"):
        price_set(model=name, parts=PriceParts(per_call=Decimal("0.5")), effective_from=NEW_YEAR)
    price_close(
        price=price_set(model="closed", parts=PriceParts(input=Decimal(1)), effective_from=NEW_YEAR).price
    )
    cost_price_set(
        channel_id=channel.pk,
        model="sent",
        parts=PriceParts(output=Decimal("1.1")),
        effective_from=NEW_YEAR,
        tiers=tiers,
    )
    group_multiplier_set(group="vip", multiplier=Decimal("0.123456"), effective_from=NEW_YEAR)


def state():
    """Every open row by its values, whatever its id."""
    return (
        list(Price.objects.filter(is_closed=False).order_by(*COLUMNS[:3]).values_list(*COLUMNS)),
        list(
            CostPrice.objects.filter(is_closed=False).values_list(
                "channel__name", "model", "effective_from", *COLUMNS[3:]
            )
        ),
        list(
            GroupMultiplier.objects.filter(is_closed=False).values_list(
                "group", "effective_from", "multiplier"
            )
        ),
    )


def clear():
    for model in (Price, CostPrice, GroupMultiplier):
        model.objects.all().delete()


@pytest.fixture
def write(tmp_path):
    def written(text, name="p.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_exported_comes_back_exactly(everything, write, kind):
    before, text = state(), export_text(kind)
    clear()
    assert import_file(write(text, f"p.{kind}")).has_changes
    assert state() == before
    assert export_text(kind) == text
    assert "closed" not in text


@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_read_again_changes_nothing(everything, write, kind):
    path, version, ids = (
        write(export_text(kind), f"p.{kind}"),
        config_version(),
        set(Price.objects.values_list("pk")),
    )
    assert not import_file(path).has_changes
    assert config_version() == version
    assert set(Price.objects.values_list("pk")) == ids


def test_an_empty_database_gives_a_file_that_can_be_read(write):
    for kind in FORMATS:
        assert not import_file(write(export_text(kind), f"p.{kind}")).has_changes


def test_an_entry_says_the_whole_price(write):
    """Unlike `apply`, where what is missing stays."""
    old = price_set(
        model="m",
        parts=PriceParts(input=Decimal(1), output=Decimal(2)),
        effective_from=NEW_YEAR,
        image_rates={"low": Decimal(1)},
    ).price
    other = price_set(model="other", parts=PriceParts(input=Decimal(1)), effective_from=NEW_YEAR).price
    version = config_version()
    import_file(write("prices: [{model: m, effective_from: 2026-01-01, input: 3}]"))
    new = Price.objects.get(model="m", is_closed=False)
    assert (new.input, new.output, new.image_rates) == (3, None, {})
    old.refresh_from_db()
    assert old.is_closed
    assert old.effective_to is not None
    assert old.version == new.version == config_version() == version + 1
    other.refresh_from_db()
    assert not other.is_closed, "what the file does not mention stays"


def test_a_dry_run_changes_nothing(everything, write):
    before, version = state(), config_version()
    report = import_file(write("prices: [{model: m, input: 3}, {model: free, input: 1}]"), is_dry_run=True)
    assert report.is_dry_run
    assert report.has_changes
    assert (state(), config_version()) == (before, version)


REFUSED = [
    ("p.yaml", "prices: [{model: ok, input: 1}, {model: m, input: -1}]", "prices[1].input: "),
    ("p.yaml", "prices: [{model: m, inptu: 1}]", "prices[0].inptu: unknown field (did you mean input?)"),
    ("p.yaml", "prices: [{input: 1}]", "prices[0].model: is missing"),
    ("p.yaml", "prices: [{model: m}]", "prices[0]: At least one price is expected; free is an explicit 0"),
    (
        "p.yaml",
        "prices: [{model: all, effective_from: 2026-01-01}]",
        "prices[0]: At least one price is expected; free is an explicit 0",
    ),
    (
        "p.yaml",
        "cost_prices: [{channel: 'Nord, “zwei”', model: sent, effective_from: 2026-01-01}]",
        "cost_prices[0]: At least one price is expected; free is an explicit 0",
    ),
    ("p.yaml", "prices: [{model: 'a b', input: 1}]", "prices[0].model: “a b” is no model name or pattern"),
    ("p.yaml", "prices: [{model: m, group: 'a b', input: 1}]", "prices[0].group: “a b” is no group"),
    ("p.yaml", 'prices: [{model: "m\\0", input: 1}]', "prices[0].model: holds a NUL character"),
    ("p.yaml", "prices: [{model: m, input: 1}, {model: m, input: 1}]", "prices[1]: the same as prices[0]"),
    (
        "p.yaml",
        "prices: [{model: m, input: 1}, {model: m, effective_from: '1970-01-01T01:00:00+01:00', input: 1}]",
        "prices[1]: the same as prices[0]",
    ),
    (
        "p.yaml",
        "prices: [{model: m, tiers: [{input: 1}]}]",
        "prices[0].tiers: tier 1: above_input_tokens must",
    ),
    ("p.yaml", "prices: [{model: m, image_rates: {a/b/c: 1}}]", "prices[0].image_rates: “a/b/c” is no size"),
    ("p.yaml", "prices: {model: m}", "prices: a list is expected"),
    ("p.yaml", "prices: [m]", "prices[0]: a mapping is expected"),
    ("p.yaml", "price: []", "price: is none of prices, cost_prices, group_multipliers"),
    ("p.yaml", "- 1", "a mapping with prices, cost_prices, group_multipliers is expected"),
    ("p.yaml", "", "the file is empty"),
    ("p.yaml", "prices: [", "line 1"),
    ("p.yaml", "prices: []\nprices: []", "line 2: “prices” is there twice"),
    (
        "p.yaml",
        "cost_prices: [{channel: north, model: m, input: 1}]",
        "cost_prices[0].channel: no such channel",
    ),
    ("p.yaml", "group_multipliers: [{group: vip, multiplier: -1}]", "group_multipliers[0].multiplier: "),
    ("p.json", '{"prices": [{"model": "m", "input": 1}, ]}', "line 1, column 41: is no JSON"),
    ("p.json", '{"prices": [{"model": "m", "input": NaN}]}', "holds NaN, which is no number"),
    ("p.json", '{"prices": [{"model": "m", "model": "n"}]}', "“model” is there twice in one object"),
    ("p.json", "[" * 100_000, "is nested too deeply"),
    ("p.json", '{"prices": [{"model": "m", "input": ' + "1" * 5000 + "}]}", "holds a number that is none"),
    ("p.csv", "", "line 1: a line with the names of the columns is expected"),
    ("p.csv", "model,input\nm,x\n", "line 2.input: a number is expected"),
    ("p.csv", "model,input\nok,1\nm,1,2\n", "line 3: has 3 cells, the first line 2"),
    ("p.csv", "model,model\n", "line 1: column “model” is empty or there twice"),
    ("p.csv", "model,,input\n", "line 1: column “” is empty or there twice"),
    ("p.csv", "model,cheap\nm,1\n", "line 2.cheap: unknown field"),
    ("p.csv", "section,model\nprice,m\n", "line 2.section: is none of prices"),
    ("p.csv", 'model,tiers\nm,"[{"\n', "line 2.tiers: is no JSON"),
    ("p.csv", 'model,input\n"m,1\n', "is no CSV"),
    ("p.csv", b"model,input\n\xff,1\n", "is no UTF-8 text"),
    ("p.txt", "", "the name must end with one of .yaml, .yml, .json, .csv"),
]


@pytest.mark.parametrize(("name", "text", "told"), REFUSED)
def test_a_bad_file_is_refused_with_its_place_and_changes_nothing(everything, write, name, text, told):
    before, version = state(), config_version()
    with pytest.raises(ProvisioningRefused) as refusal:
        import_file(write(text, name))
    assert told in str(refusal.value)
    assert all(line.startswith(str(write(text, name))) for line in str(refusal.value).splitlines())
    assert (state(), config_version()) == (before, version)


def test_all_problems_are_told_at_once(write):
    text = "prices: [{model: a, input: x}, {model: b}, {input: 1}]\ngroup_multipliers: [{group: g}]"
    with pytest.raises(ProvisioningRefused) as refusal:
        import_file(write(text))
    places = [problem.path for problem in refusal.value.problems]
    assert places == ["prices[0].input", "prices[2].model", "group_multipliers[0].multiplier", "prices[1]"]


def test_csv_needs_only_the_columns_it_uses(write):
    import_file(write("\ufeffmodel,input\r\n\r\nm,1.5\r\nn,2\r\n", "p.csv"))
    assert dict(Price.objects.values_list("model", "input")) == {"m": Decimal("1.5"), "n": Decimal(2)}


# ---- the command


def run(*args):
    out, err = StringIO(), StringIO()
    call_command("prices", *args, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_command_exports_and_imports(everything, tmp_path):
    path, before = tmp_path / "out.csv", state()
    run("export", str(path))
    clear()
    out, _ = run("import", str(path), "--dry-run")
    assert "dry run, nothing was changed; would be" in out
    assert Price.objects.count() == 0
    out, _ = run("import", str(path))
    assert out.splitlines()[-1] == "16 created, 0 changed, 0 unchanged"
    assert state() == before


def test_the_command_tells_refusals(write, tmp_path):
    with pytest.raises(CommandError, match=r"refused, nothing was changed:\n.*prices\[0\].input"):
        run("import", str(write("prices: [{model: m, input: x}]")))
    with pytest.raises(CommandError, match="the name must end with"):
        run("export", str(tmp_path / "prices"))
    with pytest.raises(CommandError, match="No such file"):
        run("import", str(tmp_path / "none.csv"))
    with pytest.raises(CommandError, match="No such file"):
        run("export", str(tmp_path / "none" / "p.csv"))


@pytest.mark.parametrize("text", ["2027-13-01", "soon", "2027-01-01T08:00:00"])
def test_a_bad_start_is_told(write, text):
    with pytest.raises(CommandError, match="a date, or a time with Z or an offset"):
        run("import", str(write("{}", "p.json")), "--effective-from", text)


def test_options_for_litellm_are_refused_for_other_files(write):
    with pytest.raises(CommandError, match="is no list of LiteLLM's"):
        run("import", str(write("prices: [{model: m, input: 1}]")), "--group", "vip")


# ---- LiteLLM's list. Entries as in its repository, BerriAI/litellm, model_prices_and_context_window.json.

LITELLM = {
    "sample_spec": {"input_cost_per_token": 1.0, "litellm_provider": "one of …"},
    "claude-sonnet-4-5": {
        "cache_creation_input_token_cost": 3.75e-06,
        "cache_creation_input_token_cost_above_1hr": 6e-06,
        "cache_read_input_token_cost": 3e-07,
        "input_cost_per_token": 3e-06,
        "input_cost_per_token_batches": 1.5e-06,
        "litellm_provider": "anthropic",
        "mode": "chat",
        "output_cost_per_token": 1.5e-05,
        "search_context_cost_per_query": {"search_context_size_high": 0.01},
    },
    "gemini-2.5-pro": {
        "cache_read_input_token_cost": 1.25e-07,
        "cache_read_input_token_cost_above_200k_tokens": 2.5e-07,
        "input_cost_per_token": 1.25e-06,
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
        "input_cost_per_token_above_200k_tokens_priority": 4.5e-06,
        "mode": "chat",
        "output_cost_per_token": 1e-05,
        "output_cost_per_token_above_200k_tokens": 1.5e-05,
    },
    "gpt-image-1": {
        "input_cost_per_image_token": 1e-05,
        "input_cost_per_token": 5e-06,
        "mode": "image_generation",
        "output_cost_per_image_token": 4e-05,
    },
    "high/1024-x-1024/gpt-image-1": {"input_cost_per_pixel": 1.59263611e-07, "output_cost_per_pixel": 0.0},
    "azure/hd/1024-x-1792/dall-e-3": {"input_cost_per_pixel": 6.539e-08, "output_cost_per_token": 0.0},
    "512-x-512/dall-e-2": {"input_cost_per_pixel": 6.86e-08, "mode": "image_generation"},
    "aiml/dall-e-3": {"mode": "image_generation", "output_cost_per_image": 0.052},
    "whisper-1": {
        "input_cost_per_second": 0.0001,
        "mode": "audio_transcription",
        "output_cost_per_second": 0.0001,
    },
    "gpt-4o-transcribe": {
        "input_cost_per_audio_token": 2.5e-06,
        "input_cost_per_second": 0.0001,
        "input_cost_per_token": 2.5e-06,
        "mode": "audio_transcription",
        "output_cost_per_token": 1e-05,
    },
    "tts-1": {"input_cost_per_character": 1.5e-05, "mode": "audio_speech"},
    "rerank-english-v3.0": {"input_cost_per_query": 0.002, "input_cost_per_token": 0.0, "mode": "rerank"},
    "unknown": {"input_cost_per_token": 0.0, "output_cost_per_token": 0, "mode": "chat"},
    "video": {"output_cost_per_second": 0.1, "mode": "video_generation"},
}
TAKEN = {
    "claude-sonnet-4-5": {
        "input": "3",
        "cached_input": "0.3",
        "cache_write_5m": "3.75",
        "cache_write_1h": "6",
        "output": "15",
    },
    "gemini-2.5-pro": {
        "input": "1.25",
        "cached_input": "0.125",
        "output": "10",
        "tiers": [{"above_input_tokens": 200000, "input": "2.5", "cached_input": "0.25", "output": "15"}],
    },
    # Paid by the tokens of its pictures, so not each; all it puts out are pictures.
    "gpt-image-1": {"input": "5", "image_input": "10", "image_output": "40", "output": "40"},
    # 1024 × 1792 × 6.539e-08 = 0.11999117312, kept with nine decimals
    "azure/dall-e-3": {"image_rates": {"1024x1792/hd": "0.119991173"}},
    "dall-e-2": {"image_rates": {"512x512": "0.017983078"}},
    "aiml/dall-e-3": {"per_image": "0.052"},
    "whisper-1": {"per_audio_second": "0.0001"},
    # Tokens or seconds, not both.
    "gpt-4o-transcribe": {"input": "2.5", "audio_input": "2.5", "output": "10"},
    "tts-1": {"per_character": "15"},
    "rerank-english-v3.0": {"input": "0", "per_call": "0.002"},
}


@pytest.fixture
def litellm(write):
    return write(json.dumps(LITELLM), "prices.json")


def test_litellms_list_is_understood(litellm):
    report = import_file(litellm)
    found = {entry.pop("model"): entry for entry in json.loads(export_text(Format.JSON))["prices"]}
    for entry in found.values():
        assert entry.pop("effective_from") == "1970-01-01T00:00:00Z"
    assert found == TAKEN
    free, left = report.warnings
    assert free == "2 entries without a price above 0 are left out: unknown, video"
    assert "input_cost_per_token_batches (1)" in left
    assert "input_cost_per_token_above_200k_tokens_priority (1)" in left
    assert "output_cost_per_second (1)" in left
    assert not import_file(litellm).has_changes


def test_of_litellms_list_some_models_for_a_group_from_a_day(litellm):
    run("import", str(litellm), "--only", "gemini-*", "--group", "vip", "--effective-from", "2027-01-01")
    row = Price.objects.get()
    assert (row.model, row.group) == ("gemini-2.5-pro", "vip")
    assert row.effective_from == datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize("value", ["cheap", True, [1], -1e-06, 10, "1e99999999"])
def test_what_is_no_price_in_litellms_list_is_told_with_its_model(write, value):
    good = {"input_cost_per_token": 1e-06, "mode": "chat"}
    text = json.dumps({"good": good, "bad": good | {"output_cost_per_token": value}})
    with pytest.raises(ProvisioningRefused, match=r"bad(\.output)?: "):
        import_file(write(text, "prices.json"))
    assert Price.objects.count() == 0


def test_thousands_of_prices_take_few_queries(write, django_assert_max_num_queries):
    """The transaction keeps everybody else from changing configuration. (SQLite takes some 40 rows at once.)"""
    text = json.dumps({f"m-{at}": {"input_cost_per_token": 1e-06} for at in range(2000)})
    path = write(text, "prices.json")
    with django_assert_max_num_queries(80):
        import_file(path)
    assert Price.objects.count() == 2000
    path = write(text.replace("1e-06", "2e-06"), "prices.json")
    with django_assert_max_num_queries(80):
        import_file(path)
    assert Price.objects.filter(is_closed=False, input=2).count() == 2000
    assert Price.objects.filter(is_closed=True, effective_to__isnull=False).count() == 2000


def one_litellm_price(write, **entry):
    import_file(write(json.dumps({"m": entry, "other": {"input_cost_per_token": 1e-06}}), "prices.json"))
    found = {price.pop("model"): price for price in json.loads(export_text(Format.JSON))["prices"]}
    return {name: usd for name, usd in found.get("m", {}).items() if name != "effective_from"}


@pytest.mark.parametrize("zero", [0, 0.0, "0", "0.0"])
def test_a_zero_of_litellms_list_overrides_no_price(write, zero):
    entry = {"mode": "image_generation", "input_cost_per_image": 0.04, "output_cost_per_image": zero}
    assert one_litellm_price(write, **entry) == {"per_image": "0.04"}


@pytest.mark.parametrize("zero", [0.0, "0.0"])
def test_a_zero_of_litellms_list_makes_no_pictures_free(write, zero):
    entry = {"mode": "image_generation", "input_cost_per_token": 5e-06, "output_cost_per_image_token": 4e-05}
    taken = {"input": "5", "image_output": "40", "output": "40"}
    assert one_litellm_price(write, **entry, output_cost_per_image=zero) == taken


def test_pictures_that_are_paid_by_their_tokens_are_not_paid_each(write):
    entry = {"mode": "image_generation", "output_cost_per_image_token": 4e-05, "output_cost_per_image": 0.04}
    assert one_litellm_price(write, **entry) == {"image_output": "40", "output": "40"}


def test_an_output_of_zero_keeps_no_picture_sizes_out(write):
    sized = {"high/512-x-512/m": {"input_cost_per_image": 0.04}}
    entry = {"mode": "image_generation", "input_cost_per_token": 5e-06, "output_cost_per_token": 0}
    import_file(write(json.dumps({"m": entry} | sized), "prices.json"))
    assert Price.objects.get().image_rates == {"512x512/high": "0.04"}


def test_a_price_below_zero_in_litellms_list_is_told(write):
    entry = {"mode": "image_generation", "input_cost_per_image": 0.04, "output_cost_per_image": -1}
    with pytest.raises(ProvisioningRefused, match=r"m\.per_image: "):
        one_litellm_price(write, **entry)


def test_prices_without_a_place_are_counted_as_text_too(write):
    entry = {"m": {"input_cost_per_token": "1e-06", "input_cost_per_token_batches": "5e-07"}}
    report = import_file(write(json.dumps(entry), "prices.json"))
    assert [text for text in report.warnings if "input_cost_per_token_batches (1)" in text]
