//! The shapes of table, CSV, JSON and plots.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::bench::job::StepOutcome;
use crate::bench::objects::Change;
use crate::bench::plan::{BenchVerb, Step};
use crate::bench::process::Usage;
use crate::bench::result::{Host, SCHEMA, Settings, StepRun, TargetInfo};
use crate::bench::tally::Tally;

fn run(index: usize, step: &str, repeat: u32, (target, factor): (&str, u32)) -> StepRun {
    let step: Step = step.parse().unwrap();
    let mut tally = Tally::default();
    for i in 1..=100 * u64::from(repeat) {
        let latency = Duration::from_micros(i) * factor;
        tally.succeed(BenchVerb::Get, latency, step.size.0, 0);
    }
    tally.fail(BenchVerb::Get, "503 Slow, Down", || {
        "get answered \"503\" & <more>".to_owned()
    });
    let usage = |cpu_s| Usage {
        cpu_s,
        rss_bytes: 5_000_000,
        rss_peak_bytes: 6_000_000,
    };
    let outcome = StepOutcome {
        elapsed: Duration::from_secs(2),
        tally,
        change: Change::default(),
        client_cpu: Duration::from_millis(50),
        server: Some((usage(10.0), usage(10.0 + f64::from(factor * repeat)))),
        server_lost: None,
    };
    StepRun::new(index, &step, repeat, target, &outcome)
}

fn campaign() -> Campaign {
    let mut runs = Vec::new();
    for repeat in 1..=3 {
        for (index, step) in ["get:4k:1:1", "get:4k:16:1", "get:10mb:4:1"]
            .iter()
            .enumerate()
        {
            for target in [("dewar", 1), ("a <&> b", 2)] {
                runs.push(run(index, step, repeat, target));
            }
        }
    }
    let target = |name: &str| TargetInfo {
        name: name.to_owned(),
        ..TargetInfo::default()
    };
    Campaign {
        schema: SCHEMA,
        dewar_version: "0",
        started_unix_s: 1_700_000_000,
        command: vec!["dewar".to_owned()],
        host: Host {
            cpus: 2,
            cpu_model: "Some \"CPU\"".to_owned(),
            ..Host::default()
        },
        settings: Settings {
            repeat: 3,
            ..Settings::default()
        },
        targets: vec![target("dewar"), target("a <&> b")],
        runs,
    }
}

#[test]
fn units_of_cpu() {
    let run = run(0, "get:4k:1:1", 2, ("dewar", 1));
    assert_eq!((run.ops, run.errors, run.ops_per_s), (200, 1, 100.0));
    let server = run.server_cpu.unwrap();
    assert_eq!((server.s, server.s_per_1000_ops), (2.0, Some(10.0)));
    assert!((server.s_per_gb.unwrap() - 2.0 / (200.0 * 4_096.0 / 1e9)).abs() < 1e-6);
    assert_eq!(server.s_per_100000_keys, None);
    assert_eq!(run.client_cpu.s_per_1000_ops, Some(0.25));
}

#[test]
fn table_shows_medians_and_lines_up() {
    let text = table::table(&campaign());
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("step           target "), "{text}");
    let cells: Vec<_> = lines[1]
        .split("  ")
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .collect();
    assert_eq!(
        cells[..6],
        ["get 4 KiB x1", "dewar", "200", "3", "100", "0.410"]
    );
    assert!(
        cells.contains(&"10.0") && cells.contains(&"10.0..10.0"),
        "{cells:?}"
    );
    assert!(lines[3].is_empty(), "steps are set apart: {text}");
    let end = lines[0].find("err").unwrap() + 3;
    assert!(
        lines[1..3]
            .iter()
            .all(|line| line.as_bytes()[end - 1].is_ascii_digit()),
        "{text}"
    );
    assert!(text.contains("Medians of 3 runs"));
}

#[test]
fn comparison_pairs_runs_of_the_same_repeat() {
    let campaign = campaign();
    let cpu = |run: &StepRun| run.server_cpu.as_ref()?.per(run.unit());
    let ratio = compare::ratio(&campaign, 0, ("a <&> b", "dewar"), cpu).unwrap();
    assert_eq!((ratio.min, ratio.median, ratio.max), (2.0, 2.0, 2.0));
    // Throughput triples from the first repeat to the third, on both targets alike.
    let throughput = |run: &StepRun| Some(run.ops_per_s);
    let ratio = compare::ratio(&campaign, 0, ("a <&> b", "dewar"), throughput).unwrap();
    assert_eq!((ratio.min, ratio.median, ratio.max), (1.0, 1.0, 1.0));
    let text = compare::table(&campaign).unwrap();
    assert!(
        text.contains("a <&> b / dewar") && text.contains("2.00"),
        "{text}"
    );
    let mut alone = campaign;
    alone.targets.truncate(1);
    assert_eq!(compare::table(&alone), None);
}

#[test]
fn csv_has_a_cell_for_each_column() {
    let campaign = campaign();
    let text = csv::csv(&campaign);
    let mut lines = text.lines();
    let head: Vec<_> = lines.next().unwrap().split(',').collect();
    assert_eq!(head, csv::COLUMNS);
    let first = lines.next().unwrap();
    assert!(first.ends_with("\"503 Slow, Down=1\""), "{first}");
    let unquoted = first.replace("Slow, Down", "Slow Down");
    let cells: BTreeMap<_, _> = head.iter().copied().zip(unquoted.split(',')).collect();
    assert_eq!(unquoted.split(',').count(), head.len());
    assert_eq!(
        (cells["ops"], cells["size_bytes"], cells["target"]),
        ("100", "4096", "dewar")
    );
    assert_eq!(cells["server_cpu_s_per_1000_ops"], "10");
    assert_eq!(cells["server_cpu_s_per_100000_keys"], "");
    assert_eq!(cells["server_rss_peak_bytes"], "6000000");
    assert_eq!(lines.count(), campaign.runs.len() - 1);
}

#[test]
fn json_has_the_documented_members() {
    let json = serde_json::to_value(campaign()).unwrap();
    assert_eq!(json["schema"], "dewar-bench-1");
    let run = &json["runs"][0];
    let names: Vec<_> = run.as_object().unwrap().keys().cloned().collect();
    let documented = include_str!("../../../../../docs/bench.md");
    for name in &names {
        assert!(
            documented.contains(&format!("`{name}`")),
            "docs/bench.md does not know {name}"
        );
    }
    assert_eq!(
        run["latency_ms"]["p99_9"]
            .as_f64()
            .map(|ms| (ms * 1e3).round()),
        Some(100.0)
    );
    assert_eq!(
        run["server_cpu"]["s_per_100000_keys"],
        serde_json::Value::Null
    );
    assert_eq!(run["verbs"]["get"]["ops"], 100);
}

/// The texts of a document, after checking that it is well-formed and inside its own bounds.
fn texts(svg: &str) -> Vec<String> {
    use quick_xml::events::Event;
    let mut reader = quick_xml::Reader::from_str(svg);
    reader.config_mut().check_end_names = true;
    let (mut depth, mut texts) = (0, Vec::new());
    let mut text = String::new();
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                depth += 1;
                start
                    .attributes()
                    .for_each(|attribute| drop(attribute.unwrap()));
                text.clear();
            }
            Event::Empty(empty) => {
                for attribute in empty.attributes() {
                    let value = attribute.unwrap().value.into_owned();
                    assert!(
                        !value.windows(3).any(|part| part == b"NaN"),
                        "a place that is none"
                    );
                }
            }
            Event::End(_) => {
                depth -= 1;
                texts.push(std::mem::take(&mut text));
            }
            Event::Text(part) => text.push_str(&part.decode().unwrap()),
            Event::GeneralRef(entity) => text.push_str(&format!("&{};", entity.decode().unwrap())),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    texts
}

#[test]
fn plots_are_well_formed_and_labelled() {
    let plots = plot::plots(&campaign());
    let names: Vec<_> = plots.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["throughput-get.svg", "latency-get.svg", "cpu.svg"]);
    for (name, svg) in &plots {
        let texts = texts(svg);
        let has = |text: &str| texts.iter().any(|other| other == text);
        assert!(
            has("dewar") && has("a &lt;&amp;&gt; b"),
            "{name}: {texts:?}"
        );
    }
    let throughput = texts(&plots[0].1);
    for label in [
        "connections",
        "MB/s",
        "operations/s",
        "objects of 4 KiB",
        "objects of 10 MB",
    ] {
        assert!(
            throughput.iter().any(|text| text == label),
            "{label}: {throughput:?}"
        );
    }
    // Two targets at three steps: a dot each, and lines where there are two concurrencies.
    assert_eq!(plots[0].1.matches("<circle").count(), 6);
    assert_eq!(plots[0].1.matches("<polyline").count(), 2);
    assert!(
        texts(&plots[2].1)
            .iter()
            .any(|text| text == "CPU-seconds per GB")
    );
}

#[test]
fn nothing_measured_is_no_plot_of_nothing() {
    let mut campaign = campaign();
    for run in &mut campaign.runs {
        *run = StepRun {
            ops: 0,
            bytes: 0,
            latency_ms: Default::default(),
            server_cpu: None,
            ..run.clone()
        };
    }
    let plots = plot::plots(&campaign);
    assert_eq!(plots.len(), 1);
    texts(&plots[0].1);
}
