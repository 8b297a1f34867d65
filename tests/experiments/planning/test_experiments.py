"""What every table needs at every scale."""

from __future__ import annotations

from pathlib import Path

import pytest
from soar.experiments.measuring.attacks import attack_of
from soar.experiments.measuring.measurements import KINDS

from soar.attacks.attack import ATTACKS
from soar.errors import UserError
from soar.experiments.planning.experiments import TABLES, experiment, network_of
from soar.experiments.planning.scales import SCALES
from soar.paper import tables


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_measured_row_by_row_and_column_by_column(table: str, scale: str) -> None:
    found = experiment(table, SCALES[scale])
    if table in tables.TABLES:
        assert found.table == tables.load(table)
    assert [row.name for row in found.rows] == [row.name for row in found.table.rows]
    for row in found.rows:
        assert tuple(row.columns) == found.table.columns
        for measurement in row.columns.values():
            assert measurement.kind in KINDS
            if measurement.kind in ("accuracy", "transfer"):
                assert measurement.options["attack"] in [one.name for one in ATTACKS]
                attack_of(dict(measurement.options))


def test_there_are_the_papers_tables_and_two_of_its_text() -> None:
    assert len(TABLES) == 22
    assert TABLES[:20] == tables.TABLES


def columns(table: str, scale: str = "paper") -> dict[str, dict[str, object]]:
    row = experiment(table, SCALES[scale]).rows[-1]
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


def test_transferred_points_come_from_the_right_source() -> None:
    row = experiment("bbox", SCALES["small"]).rows[-1].columns
    assert {name: one.sources for name, one in row.items()} == {
        "SimBA": (),
        "PGD20-R": ("source-resnet",),
        "PGD20-W": ("source-wide",),
        "PGD1000-R": ("source-resnet",),
        "PGD1000-W": ("source-wide",),
    }
    svhn = experiment("svhn_blackbox", SCALES["small"]).rows[0].columns
    assert svhn["PGD20"].kind == "transfer" and svhn["PGD20"].sources == ("svhn-source",)
    foar = experiment("foar", SCALES["small"]).rows[0].columns["PGD20-R (transfer)"]
    black = experiment("soar_complete", SCALES["small"]).rows[0].columns["PGD20 black-box (R)"]
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
    assert found["Transfer"]["eps"] == "1.74"
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


def test_rows_name_their_networks() -> None:
    def names(table: str) -> list[str]:
        return [network_of(tables.load(table), row.name) for row in tables.load(table).rows]

    assert names("confidence") == ["standard", "adv", "soar-zero", "soar-rand", "soar"]
    assert names("relaxation") == names("number-of-samples") == ["standard", "soar"]
    assert names("soar-model-capacity") == ["cnn6-soar", "cnn8-soar", "soar"]
    assert names("adv_l2") == ["adv-l2", "trades-l2", "soar"]
    assert names("svhn_l2") == ["svhn-standard", "svhn-trades-l2", "svhn-soar"]
    assert names("svhn_whitebox") == ["svhn-standard", "svhn-adv", "svhn-trades", "svhn-soar"]
    assert names("cure_llr") == ["soar", "cure", "wide-cure", "llr"]
    assert names("foar") == ["foar-zero", "foar-rand", "foar"]
    assert names("mart")[-1] == "mart-beta-0.1"
    assert names("adv_linf")[:6] == [
        *(f"wide-{one}" for one in ("standard", "adv", "trades", "mart", "mma")),
        "standard",
    ]


def test_tables_with_deviations_ask_for_the_same_as_those_without() -> None:
    for table in ("adv_linf", "bbox"):
        plain = {row.name: row for row in experiment(table, SCALES["small"]).rows}
        for row in experiment(f"{table}_with_std", SCALES["small"]).rows:
            assert row.network == plain[row.name].network
            assert all(one == plain[row.name].columns[name] for name, one in row.columns.items())


def test_wide_networks_are_trained_at_paper_scale_only(tmp_path: Path) -> None:
    row = experiment("bbox", SCALES["small"], tmp_path).rows[0]
    assert (row.network, row.missing) == ("wide-adv", "not trained at this scale")
    assert row.command == "soar reproduce bbox --scale paper --only 'WideResNet / ADV'"
    assert experiment("bbox", SCALES["paper"], tmp_path).rows[0].command == "soar data fetch cifar10"


def test_rows_without_data_say_how_to_get_them(tmp_path: Path) -> None:
    row = experiment("svhn_l2", SCALES["small"], tmp_path).rows[0]
    assert (row.missing, row.command) == ("no svhn data", "soar data fetch svhn")
    assert experiment("svhn_l2", SCALES["smoke"], tmp_path).rows[0].missing == ""


def test_every_scale_and_table_carries_its_caution() -> None:
    assert experiment("mma", SCALES["small"]).caution == SCALES["small"].caution
    assert "Exact" in experiment("theory", SCALES["small"]).caution
    of_others = "whatever network it names"
    assert of_others in experiment("cure_llr", SCALES["small"]).caution
    assert of_others not in experiment("cure_llr", SCALES["paper"]).caution
    for scale in SCALES.values():
        caution = experiment("cost", scale).caution
        assert "Not the paper's experiment" in caution
        assert "epochs" not in caution, "no training is run for this table"


def test_an_unknown_table_is_a_mistake() -> None:
    with pytest.raises(UserError, match=r"adv_lnf.*adv_linf"):
        experiment("adv_lnf", SCALES["small"])
