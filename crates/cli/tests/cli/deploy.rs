//! The files in `deploy`: what runs a grid on many machines, and what asks the results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{directory, json, read, run, skipped};

pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// Runs a script under Python if that has a module; `None`, with a word, if not.
fn python(module: &str, script: &str, argument: &Path, directory: &Path) -> Option<Output> {
    let has = Command::new("python3").args(["-c", &format!("import {module}")]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        skipped(&format!("no python3 with {module}"));
        return None;
    }
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(argument)
        .current_dir(directory)
        .output()
        .expect("Python can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output)
}

#[test]
fn the_slurm_task_measures_its_shard_and_passes_its_status_on() {
    let directory = directory();
    let task = |arguments: &[&str]| {
        let ended = Command::new("bash")
            .arg(file("slurm.sh"))
            .args(arguments)
            .env("FREEHOLD", env!("CARGO_BIN_EXE_freehold"))
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .env("SLURM_ARRAY_TASK_ID", "2")
            .env("SLURM_ARRAY_TASK_COUNT", "2")
            .current_dir(directory.path())
            .output();
        ended.expect("bash can be started").status.code()
    };
    let tiny = ["larson", "--seconds", "0.02", "--repeat", "1", "-a", "system"];
    assert_eq!(task(&[&tiny[..], &["--threads", "1,2"]].concat()), Some(0));
    let document = json(&read(&directory.path().join("results/shard-2.json")));
    assert_eq!(document["parts"][0]["shard"]["number"], 2);
    assert_eq!(document["plan"]["cases"][0]["threads"], 2);
    assert_eq!(task(&["larsen"]), Some(2));
}

#[test]
fn the_kubernetes_job_is_indexed_and_has_a_pod_for_every_shard() {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let here = Path::new(".");
    let Some(output) = python("yaml", script, &file("kubernetes.yaml"), here) else { return };
    let job = json(&String::from_utf8_lossy(&output.stdout));
    assert_eq!((&job["apiVersion"], &job["kind"]), (&"batch/v1".into(), &"Job".into()));
    assert!(job["metadata"]["name"].is_string());
    let spec = &job["spec"];
    assert_eq!(spec["completionMode"], "Indexed");
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    let container = &pod["containers"][0];
    let shards = container["env"][0]["value"].as_str().expect("a text");
    assert_eq!(spec["completions"].to_string(), shards);
    assert_eq!(container["volumeMounts"][0]["name"], pod["volumes"][0]["name"]);
    check_command(container["command"][2].as_str().expect("a script"), shards);
}

#[test]
fn the_kubernetes_job_keeps_to_the_schema_of_kubernetes() {
    let script = "import sys, yaml, kubernetes_validate as kubernetes\n\
                  job = yaml.safe_load(open(sys.argv[1]))\n\
                  newest = kubernetes.latest_version()\n\
                  kubernetes.validate(job, newest, strict=True)\n\
                  job['spec']['completion'] = 8\n\
                  try:\n    kubernetes.validate(job, newest, strict=True)\n\
                  except kubernetes.ValidationError:\n    print('a wrong name is found')";
    let job = file("kubernetes.yaml");
    let Some(output) = python("kubernetes_validate", script, &job, Path::new(".")) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a wrong name is found\n");
}

/// Lets a shell run what the first pod would run, with an outline for a measurement.
fn check_command(script: &str, shards: &str) {
    let own = Path::new(env!("CARGO_BIN_EXE_freehold")).parent().expect("a directory");
    let path = format!("{}:/usr/bin:/bin", own.display());
    let script = script.replace("freehold bench", "freehold bench --dry-run -a system");
    let output = Command::new("/bin/sh")
        .args(["-c", &script])
        .env("PATH", path)
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .env("JOB_COMPLETION_INDEX", "0")
        .env("SHARDS", shards)
        .output()
        .expect("a shell");
    let (out, err) = (output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(String::from_utf8_lossy(&out).contains("freehold workload "), "{err}");
}

/// How many result files the queries are tried on, beside the two that were measured.
const COPIES: usize = 1000;

/// Runs of two harnesses with one and two threads under two allocators.
const ROWS: usize = 2 * 2 * 2;

/// Measures two shards of a grid; the lines of each are stored, and again in a file of each copy.
fn stored_lines(directory: &Path) -> Vec<PathBuf> {
    let measured = ["1", "2"].map(|shard| {
        let document = directory.join(format!("shard-{shard}.json"));
        let lines = document.with_extension("jsonl");
        let document = document.to_string_lossy();
        let tiny = ["bench", "larson", "threadtest", "--seconds", "0.02", "--repeat", "1"];
        let rest = ["--set", "objects=100", "-a", "system,freehold", "--threads", "1,2"];
        let last = ["--shard", &format!("{shard}/2"), "--json", &document];
        run(&[&tiny[..], &rest, &last].concat()).with(0);
        run(&["report", &document, "-o", &lines.to_string_lossy()]).with(0);
        for copy in 0..COPIES / 2 {
            let copy = directory.join(format!("shard-{shard}-{copy}.jsonl"));
            fs::hard_link(&lines, copy).expect("writable");
        }
        lines
    });
    measured.into()
}

fn rows(output: &Output) -> Vec<Value> {
    let rows = json(&String::from_utf8_lossy(&output.stdout));
    rows.as_array().expect("rows").clone()
}

#[test]
fn the_documented_query_finds_the_results_of_a_thousand_files() {
    let directory = directory();
    let lines = stored_lines(directory.path());
    assert_eq!(lines.iter().map(|own| read(own).lines().count()).sum::<usize>(), ROWS);
    let script = "import duckdb, json, sys\n\
                  rows = duckdb.sql(open(sys.argv[1]).read()).fetchall()\n\
                  print(json.dumps(rows))";
    let query = file("speed.sql");
    let Some(output) = python("duckdb", script, &query, directory.path()) else { return };
    let rows = rows(&output);
    assert_eq!(rows.len(), ROWS, "{rows:?}");
    for row in rows {
        assert_eq!(row[6], COPIES / 2 + 1, "{row}");
        assert!(row[7].as_f64().is_some_and(|metric| metric > 0.0), "{row}");
    }
}

#[test]
fn the_documented_way_to_parquet_loses_no_run() {
    let directory = directory();
    let lines = stored_lines(directory.path());
    let script = "import duckdb, json, sys\n\
                  duckdb.sql(f\"COPY (FROM read_json('{sys.argv[1]}')) TO 'whole.parquet'\")\n\
                  query = \"SELECT harness, allocator, cpus, value FROM 'whole.parquet'\"\n\
                  print(json.dumps(duckdb.sql(query).fetchall()))";
    let Some(output) = python("duckdb", script, Path::new("*.jsonl"), directory.path()) else {
        return;
    };
    let rows = rows(&output);
    assert_eq!(rows.len(), ROWS + COPIES / 2 * ROWS, "{lines:?}");
    assert!(rows.iter().all(|row| row[3].as_f64().is_some_and(|value| value > 0.0)), "{lines:?}");
}
