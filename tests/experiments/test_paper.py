"""The paper's tables: their numbers, networks and measurements."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from soar.attacks.attack import ATTACKS
from soar.experiments.experiment import Experiment
from soar.experiments.loading import load as load_any_scale
from soar.experiments.loading import tables
from soar.experiments.measure import KINDS
from soar.experiments.measure.accuracy import attack_of
from tests.experiments.made import row_of

SCALES = ("smoke", "small", "paper")
# By table: rows, columns, numbers, standard deviations.
COUNTS = {
    "adv_linf": (12, 7, 84, 0),
    "bbox": (10, 5, 50, 0),
    "autoattack_linf": (6, 12, 72, 0),
    "relaxation": (2, 2, 4, 0),
    "confidence": (5, 3, 15, 15),
    "cure_llr": (4, 2, 8, 0),
    "soar_complete": (3, 3, 9, 0),
    "number-of-samples": (2, 3, 6, 0),
    "adv_l2": (3, 5, 15, 0),
    "cifar10_l2_autoattack": (3, 12, 36, 0),
    "svhn_whitebox": (4, 7, 25, 0),
    "svhn_blackbox": (2, 3, 6, 0),
    "svhn_l2": (3, 6, 18, 0),
    "soar-model-capacity": (3, 4, 12, 0),
    "adv_linf_with_std": (7, 5, 35, 35),
    "bbox_with_std": (6, 5, 30, 30),
    "trades": (10, 6, 60, 0),
    "mart": (10, 6, 60, 0),
    "mma": (6, 6, 36, 0),
    "foar": (3, 7, 21, 0),
}
# SVHN minus CIFAR-10, in points, as the text states.
DIFFERENCES = {
    ("TRADES", "Standard"): 8.87,
    ("SOAR", "Standard"): 3.28,
    ("TRADES", "PGD20"): 3.52,
    ("SOAR", "PGD20"): 2.93,
}


@cache
def load(name: str, scale: str = "paper") -> Experiment:
    return load_any_scale(name, scale=scale)


def test_there_are_20_tables_with_682_numbers_and_two_of_the_text() -> None:
    assert set(tables()) == {*COUNTS, "cost", "theory"} and len(tables()) == 22
    assert sum(numbers + spreads for _, _, numbers, spreads in COUNTS.values()) == 682
    files = (Path(load_any_scale.__code__.co_filename).parent / "paper").glob("*.toml")
    assert {file.stem for file in files} == {*tables(), "networks"}


@pytest.mark.parametrize("name", COUNTS)
def test_a_table_has_its_rows_columns_and_numbers(name: str) -> None:
    table = load(name)
    numbers = [value for row in table.rows for value in row.paper.values() if value is not None]
    spreads = sum(len(row.paper_std) for row in table.rows)
    assert (len(table.rows), len(table.columns), len(numbers), spreads) == COUNTS[name]
    if table.unit == "percent":
        assert all(0 <= value <= 100 for value in numbers)


@pytest.mark.parametrize(
    ("table", "row", "column", "expected"),
    [
        ("adv_linf", "ResNet / SOAR", "PGD20", 56.06),
        ("adv_linf", "ResNet / ADV", "PGD20", 42.86),
        ("adv_linf", "WideResNet / MART", "PGD20-50", 55.98),
        ("bbox", "ResNet / SOAR", "SimBA", 68.57),
        ("autoattack_linf", "SOAR", "APGD-DLR-T@8/255", 18.25),
        ("autoattack_linf", "SOAR", "APGD-DLR-T@4/255", 52.64),
        ("autoattack_linf", "ADV", "APGD-CE@6/255", 51.84),
        ("relaxation", "End of SOAR", "loss_l2", 20.15),
        ("confidence", "SOAR-PGD1 init", "PGD1", 97.94),
        ("cure_llr", "ResNet-18 / CURE", "PGD20", 36.3),
        ("cure_llr", "WideResNet / CURE", "PGD20", 41.4),
        ("soar_complete", "SOAR-zero init", "PGD20 black-box (R)", 2.86),
        ("number-of-samples", "End of SOAR", "n=100", 1.56),
        ("adv_l2", "ResNet / SOAR", "eps=1.74", 56.89),
        ("cifar10_l2_autoattack", "SOAR", "APGD-DLR-T@1.74", 0.97),
        ("cifar10_l2_autoattack", "SOAR", "Square@0.5", 71.92),
        ("svhn_whitebox", "SOAR", "PGD20", 58.99),
        ("svhn_whitebox", "ADV", "PGD1000", None),
        ("svhn_blackbox", "TRADES", "SimBA", 49.13),
        ("svhn_l2", "TRADES", "Standard", 91.94),
        ("soar-model-capacity", "CNN6", "PGD20", 32.83),
        ("trades", "9", "PGD20", 45.38),
        ("trades", "0.1", "PGD200", 14.53),
        ("mart", "0.5", "FGSM", 52.06),
        ("mma", "32", "PGD20", 37.26),
        ("cost", "SOAR", "forward", 3),
        ("cost", "SOAR", "backward", 4),
        ("cost", "ADV", "minutes per epoch", 19),
        ("cost", "TRADES", "minutes per epoch", 39.6),
        ("cost", "MART", "minutes per epoch", 29),
        ("cost", "SOAR", "minutes per epoch", 26.5),
        ("cost", "MMA", "minutes per epoch", None),
    ],
)
def test_numbers_are_those_of_the_paper(table: str, row: str, column: str, expected: float | None) -> None:
    assert row_of(load(table), row).paper[column] == expected


def test_standard_deviations_are_those_of_the_paper() -> None:
    assert row_of(load("adv_linf_with_std"), "ResNet / SOAR").paper_std["PGD20"] == 0.15
    assert row_of(load("bbox_with_std"), "ResNet / MMA").paper_std["PGD20-W"] == 1.2
    assert row_of(load("confidence"), "SOAR-random init").paper_std["PGD1"] == 0.0


def test_ratios_of_the_cost_are_those_of_its_minutes() -> None:
    table = load("cost")
    adv = row_of(table, "ADV").paper["minutes per epoch"]
    assert adv
    for row in table.rows:
        minutes, ratio = row.paper["minutes per epoch"], row.paper["relative to ADV"]
        assert ratio == (None if minutes is None else minutes / adv)


def test_the_last_two_heads_of_the_foar_table_are_corrected() -> None:
    foar = load("foar")
    assert foar.columns[-2:] == ("PGD20-50", "PGD20-R (transfer)")
    # The same network stands in the main tables, under the right heads.
    row = row_of(foar, "PGD1")
    assert row.paper["PGD20-50"] == row_of(load("adv_linf"), "ResNet / FOAR").paper["PGD20-50"] == 32.08
    assert row.paper["PGD20-R (transfer)"] == row_of(load("bbox"), "ResNet / FOAR").paper["PGD20-R"] == 63.56


@pytest.mark.parametrize(("short", "full"), [("adv_linf_with_std", "adv_linf"), ("bbox_with_std", "bbox")])
def test_tables_with_deviations_repeat_those_without(short: str, full: str) -> None:
    for row in load(short).rows:
        plain = row_of(load(full), row.name)
        assert row.network == plain.network
        for column in row.columns:
            assert row.paper[column] == plain.paper[column]
            assert row.columns[column] == plain.columns[column]


def test_differences_that_the_text_states_are_those_of_the_tables() -> None:
    for (method, column), stated in DIFFERENCES.items():
        svhn = row_of(load("svhn_whitebox"), method).paper[column]
        cifar = row_of(load("adv_linf"), f"ResNet / {method}").paper[column]
        assert svhn is not None and cifar is not None and round(svhn - cifar, 2) == stated


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", tables())
def test_every_table_is_measured_row_by_row_and_column_by_column(name: str, scale: str) -> None:
    table = load(name, scale)
    assert (table.name, table.scale) == (name, scale) and table.title and table.caution
    for row in table.rows:
        assert tuple(row.columns) == tuple(row.paper) == table.columns
        for measurement in row.columns.values():
            assert measurement.kind in KINDS
            if measurement.kind in ("accuracy", "transfer"):
                assert measurement.options["attack"] in [one.name for one in ATTACKS]
                attack_of(dict(measurement.options))


def columns(name: str, scale: str = "paper") -> dict[str, dict[str, object]]:
    row = load(name, scale).rows[-1]
    return {name: {"kind": one.kind, **one.options} for name, one in row.columns.items()}


def test_white_box_attacks_are_those_of_the_paper() -> None:
    found = columns("adv_linf")
    ball = {"kind": "accuracy", "norm": "linf", "eps": "8/255"}
    pgd = {**ball, "attack": "pgd", "step_size": "2/255"}
    assert found["Standard"] == {"kind": "clean"}
    assert found["FGSM"] == {**ball, "attack": "fgsm"}
    assert found["PGD20-50"] == {**pgd, "steps": 20, "restarts": 50}
    assert [found[f"PGD{steps}"] for steps in (20, 100, 200, 1000)] == [
        {**pgd, "steps": steps} for steps in (20, 100, 200, 1000)
    ]


@pytest.mark.parametrize("name", ["small", "paper"])
def test_only_the_smoke_scale_limits_attacks(name: str) -> None:
    numbers = ("steps", "restarts", "queries", "targets")
    full, tiny = columns("adv_linf", name), columns("adv_linf", "smoke")
    assert (full["PGD1000"]["steps"], full["PGD20-50"]["restarts"]) == (1000, 50)
    assert (tiny["PGD1000"]["steps"], tiny["PGD20-50"]["restarts"]) == (2, 2)
    for column, options in columns("autoattack_linf", name).items():
        limited = columns("autoattack_linf", "smoke")[column]
        assert {key: one for key, one in options.items() if key not in numbers} == {
            key: one for key, one in limited.items() if key not in numbers
        }


def test_attacks_that_need_many_predictions_get_fewer_images() -> None:
    for scale, usual, simba, square in (
        ("smoke", 8, 8, 8),
        ("small", 500, 200, 200),
        ("paper", 10_000, 1000, 10_000),
    ):
        assert load("bbox", scale).rows[0].columns["SimBA"].examples == simba
        parts = load("autoattack_linf", scale).rows[0].columns
        assert (parts["FAB-T@8/255"].examples, parts["Square@8/255"].examples) == (usual, square)


def test_transferred_points_come_from_the_right_source() -> None:
    row = load("bbox", "small").rows[-1].columns
    assert {name: one.sources for name, one in row.items()} == {
        "SimBA": (),
        "PGD20-R": ("source-resnet",),
        "PGD20-W": ("source-wide",),
        "PGD1000-R": ("source-resnet",),
        "PGD1000-W": ("source-wide",),
    }
    svhn = load("svhn_blackbox", "small").rows[0].columns
    assert svhn["PGD20"].kind == "transfer" and svhn["PGD20"].sources == ("svhn-source",)
    foar = load("foar", "small").rows[0].columns["PGD20-R (transfer)"]
    black = load("soar_complete", "small").rows[0].columns["PGD20 black-box (R)"]
    assert foar == black == row["PGD20-R"]


def test_l2_attacks_take_steps_of_a_fortieth() -> None:
    found = columns("adv_l2")
    assert found["eps=60/255"] == {
        "kind": "accuracy",
        "attack": "pgd",
        "norm": "l2",
        "eps": "60/255",
        "steps": 100,
        "step_size": "1/170",
    }
    assert (found["Transfer"]["kind"], found["Transfer"]["eps"]) == ("transfer", "1.74")
    assert columns("svhn_l2")["Transfer"]["eps"] == "1.739"


def test_parts_of_autoattack_run_alone_at_every_eps() -> None:
    found = columns("cifar10_l2_autoattack")
    assert found["APGD-DLR-T@0.5"] == {
        "kind": "accuracy",
        "attack": "apgd",
        "norm": "l2",
        "eps": "0.5",
        "steps": 100,
        "loss": "dlr",
        "targets": 9,
    }
    linf = columns("autoattack_linf")
    assert [linf[f"Square@{eps}/255"]["eps"] for eps in (8, 6, 4)] == ["8/255", "6/255", "4/255"]


def test_samples_are_of_the_loss_that_the_network_is_trained_with() -> None:
    table = load("number-of-samples", "small")
    objective = dict(table.networks["soar"].recipe.objective)
    assert objective.pop("name") == "soar"
    # The paper prints the loss with the part that no weights change.
    objective["penalty_floor"] = True
    options = [one.options for one in table.rows[0].columns.values()]
    assert [one["samples"] for one in options] == [1, 10, 100]
    assert all(one["objective"] == objective for one in options)


def test_rows_name_their_networks() -> None:
    def names(table: str) -> list[str | None]:
        return [row.network for row in load(table).rows]

    assert names("confidence") == ["standard", "adv", "soar-zero", "soar-rand", "soar"]
    assert names("relaxation") == names("number-of-samples") == ["standard", "soar"]
    assert names("soar-model-capacity") == ["cnn6-soar", "cnn8-soar", "soar"]
    assert names("adv_l2") == names("cifar10_l2_autoattack") == ["adv-l2", "trades-l2", "soar"]
    assert names("svhn_l2") == ["svhn-standard", "svhn-trades-l2", "svhn-soar"]
    assert names("svhn_whitebox") == ["svhn-standard", "svhn-adv", "svhn-trades", "svhn-soar"]
    assert names("cure_llr") == ["soar", "cure", "wide-cure", "llr"]
    assert names("foar") == ["foar-zero", "foar-rand", "foar"]
    assert names("mart")[-1] == "0.1"
    assert names("adv_linf")[:6] == [
        *(f"wide-{one}" for one in ("standard", "adv", "trades", "mart", "mma")),
        "standard",
    ]
    assert {*names("cost"), *names("theory")} == {None}


def test_wide_networks_are_trained_at_paper_scale_only(tmp_path: Path) -> None:
    row = load_any_scale("bbox", scale="small", root=tmp_path).rows[0]
    assert (row.network, row.missing) == ("wide-adv", "not trained at this scale")
    assert row.command == "soar reproduce bbox --scale paper --only 'WideResNet / ADV'"
    paper = load_any_scale("bbox", scale="paper", root=tmp_path).rows[0]
    assert (paper.missing, paper.command) == ("no cifar10 data", "soar data fetch cifar10")


def test_rows_without_data_say_how_to_get_them(tmp_path: Path) -> None:
    row = load_any_scale("svhn_l2", scale="small", root=tmp_path).rows[0]
    assert (row.missing, row.command) == ("no svhn data", "soar data fetch svhn")
    assert load_any_scale("svhn_l2", scale="smoke", root=tmp_path).rows[0].missing == ""


def test_every_scale_and_table_carries_its_caution() -> None:
    words = {"smoke": "mean nothing", "small": "45,000 training images", "paper": "held out"}
    of_others = "whatever network it names"
    for scale, text in words.items():
        assert text in load("mma", scale).caution and text in load("cure_llr", scale).caution
        assert (of_others in load("cure_llr", scale).caution) == (scale != "paper")
        cost = load("cost", scale).caution
        assert "Not the paper's experiment" in cost
        assert "epochs" not in cost, "no training is run for this table"
        options = load("cost", scale).rows[0].columns["forward"].options
        model = ", ".join(f"{key} {value}" for key, value in options["options"].items())
        assert f"{options['model']} ({model}) in batches of {options['batch_size']}" in cost
        assert f"medians of {options['repeats']};" in cost
        assert "Exact" in load("theory", scale).caution
