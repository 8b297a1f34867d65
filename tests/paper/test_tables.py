from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import soar
from soar.errors import UserError
from soar.paper import tables
from soar.paper.tables import TABLES, TEXT, load

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


def test_there_are_20_tables_with_682_numbers_in_the_order_of_the_paper() -> None:
    assert tuple(COUNTS) == TABLES
    assert sum(numbers + spreads for _, _, numbers, spreads in COUNTS.values()) == 682


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_its_rows_columns_and_numbers(name: str) -> None:
    table = load(name)
    numbers = [value for row in table.rows for value in row.values.values() if value is not None]
    spreads = sum(len(row.std) for row in table.rows)
    assert (len(table.rows), len(table.columns), len(numbers), spreads) == COUNTS[name]


@pytest.mark.parametrize("name", TABLES)
def test_rows_and_columns_have_names_of_their_own_and_every_row_has_every_column(name: str) -> None:
    table = load(name)
    names = [row.name for row in table.rows]
    assert len(set(names)) == len(names) and all(names)
    assert len(set(table.columns)) == len(table.columns)
    for row in table.rows:
        assert tuple(row.values) == table.columns and set(row.std) <= set(table.columns)
        assert table.row(row.name) is row


@pytest.mark.parametrize("name", TABLES)
def test_percentages_lie_between_0_and_100(name: str) -> None:
    table = load(name)
    if table.unit == "percent":
        assert all(value is None or 0 <= value <= 100 for row in table.rows for value in row.values.values())


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
    ],
)
def test_numbers_are_those_of_the_paper(table: str, row: str, column: str, expected: float | None) -> None:
    assert load(table).row(row).values[column] == expected


def test_standard_deviations_are_those_of_the_paper() -> None:
    assert load("adv_linf_with_std").row("ResNet / SOAR").std["PGD20"] == 0.15
    assert load("bbox_with_std").row("ResNet / MMA").std["PGD20-W"] == 1.2
    assert load("confidence").row("SOAR-random init").std["PGD1"] == 0.0


def test_the_last_two_heads_of_the_foar_table_are_corrected() -> None:
    foar = load("foar")
    assert foar.columns[-2:] == ("PGD20-50", "PGD20-R (transfer)")
    # The same network stands in the main tables, under the right heads.
    row = foar.row("PGD1")
    assert row.values["PGD20-50"] == load("adv_linf").row("ResNet / FOAR").values["PGD20-50"] == 32.08
    assert row.values["PGD20-R (transfer)"] == load("bbox").row("ResNet / FOAR").values["PGD20-R"] == 63.56


@pytest.mark.parametrize(("short", "full"), [("adv_linf_with_std", "adv_linf"), ("bbox_with_std", "bbox")])
def test_tables_with_deviations_repeat_the_numbers_of_those_without(short: str, full: str) -> None:
    for row in load(short).rows:
        assert {column: load(full).row(row.name).values[column] for column in row.values} == row.values


def test_several_radii_become_columns_of_their_own() -> None:
    table = load("autoattack_linf")
    assert table.eps == ("8/255", "6/255", "4/255")
    assert table.columns[:4] == ("APGD-CE@8/255", "APGD-CE@6/255", "APGD-CE@4/255", "APGD-DLR-T@8/255")
    assert load("adv_linf").eps == "8/255" and load("adv_l2").eps is None


def test_numbers_of_the_text() -> None:
    assert TEXT.minutes_per_epoch_wideresnet == {"ADV_PGD10": 19, "SOAR": 26.5, "MART": 29, "TRADES": 39.6}
    assert TEXT.passes_per_minibatch["SOAR"] == (3, 4)
    assert TEXT.non_zero_gradient_elements["SOAR_zero_init"] == 1043
    assert TEXT.pgd20_with_eps_1_accuracy_percent["ADV"] == 3.3


def test_differences_that_the_text_states_are_those_of_the_tables() -> None:
    svhn, cifar = load("svhn_whitebox"), load("adv_linf")
    for key, stated in TEXT.svhn_minus_cifar_points.items():
        method, column = key.split("_")
        column = "Standard" if column == "standard" else column
        one, other = svhn.row(method).values[column], cifar.row(f"ResNet / {method}").values[column]
        assert one is not None and other is not None and round(one - other, 2) == stated


def test_a_wrong_name_is_a_mistake_of_the_user() -> None:
    with pytest.raises(UserError, match=r"unknown table 'adv_lnf' .*did you mean 'adv_linf'"):
        load("adv_lnf")
    with pytest.raises(UserError, match=r"unknown row 'SAOR' \(table svhn_l2\); did you mean 'SOAR'"):
        load("svhn_l2").row("SAOR")


def _content() -> Any:
    return json.loads(Path(tables.__file__).with_name("tables.json").read_text(encoding="utf-8"))


def test_a_field_that_nobody_reads_is_refused() -> None:
    content = _content()
    content["tables"][0]["colums_corrected"] = []
    with pytest.raises(msgspec.ValidationError, match="colums_corrected"):
        msgspec.convert(content, tables._File)


def test_a_row_that_lacks_a_column_is_refused() -> None:
    content = _content()
    del content["tables"][0]["rows"][0]["values"]["PGD20"]
    with pytest.raises(KeyError, match="PGD20"):
        tables._table(msgspec.convert(content, tables._File).tables[0])


def test_the_numbers_are_part_of_the_package() -> None:
    package = Path(soar.__file__).parent
    assert (package / "paper" / "tables.json").is_file()
    project = package.parents[1] / "pyproject.toml"
    wheel = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    # The whole folder goes into the wheel; an include or exclude could leave the file out.
    assert wheel == {"packages": ["src/soar"]}
