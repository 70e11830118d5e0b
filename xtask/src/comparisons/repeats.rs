//! The same question asked again: real programs, compared several times from the start, which are
//! to get the same recommendation nine times of ten.

use super::bench::{Bench, is_installed};
use serde_json::Value;
use std::collections::BTreeMap;

/// A program that makes, changes and drops many objects.
const PYTHON: &str = "
import json
rows = [{'id': i, 'tags': [str(j) for j in range(20)]} for i in range(8000)]
for _ in range(3):
    rows = json.loads(json.dumps(rows))
    rows.sort(key=lambda row: row['tags'][row['id'] % 20])
";

/// Two hundred lists, at whose ends the server itself adds and takes strings of up to 200 bytes: if
/// each had to be sent, the time would be that of whoever sends, and of waking each other up.
const LOAD: &str = "redis-benchmark -p 7391 -q -n 400 -c 4 eval \"\
    local list = 'list'..math.random(200) for i = 1,1500 do \
    redis.call('rpush', list, string.rep('y', math.random(200))) \
    if i % 2 == 0 then redis.call('lpop', list) end end\" 0";

const SERVER: [&str; 9] =
    ["--port", "7391", "--settle", "0.5", "--", "redis-server", "--port", "7391", "--save"];

pub(super) fn findings(bench: &Bench, count: u32) -> Result<Vec<String>, String> {
    let mut findings = Vec::new();
    if is_installed("python3") {
        let words = ["-a", "system,freehold,jemalloc", "--", "python3", "-c", PYTHON];
        findings.extend(asked(bench, count, "python3", 25, &words)?);
    } else {
        println!("repeats: python3 is not installed");
    }
    if is_installed("redis-server") && is_installed("redis-benchmark") {
        let words = [&["-a", "system,freehold", "--load", LOAD], &SERVER[..], &[""]].concat();
        findings.extend(asked(bench, count, "redis-server", 15, &words)?);
    } else {
        println!("repeats: redis-server is not installed");
    }
    Ok(findings)
}

/// Asks the same question several times, with other orders of runs.
fn asked(
    bench: &Bench,
    count: u32,
    name: &str,
    rounds: u32,
    words: &[&str],
) -> Result<Option<String>, String> {
    let mut answers: BTreeMap<String, u32> = BTreeMap::new();
    let rounds = rounds.to_string();
    for seed in 1..=count {
        let seed = seed.to_string();
        let found = bench.compare(&[&["--seed", &seed, "--repeat", &rounds], words].concat())?;
        *answers.entry(answer(&found)).or_default() += 1;
    }
    let shown: Vec<_> =
        answers.iter().map(|(answer, times)| format!("{answer} ({times})")).collect();
    println!("repeats: {name}, {count} comparisons of {rounds} rounds: {}", shown.join(", "));
    let most = answers.values().max().copied().unwrap_or_default();
    let is_stable = f64::from(most) >= 0.9 * f64::from(count);
    Ok((!is_stable)
        .then(|| format!("repeats: {name}: the same answer only {most} times of {count}")))
}

/// The recommendation in a few words.
fn answer(found: &Value) -> String {
    let advice = &found["summary"]["recommendation"]["weighed"];
    let choice = advice["choice"].as_str().unwrap_or("no recommendation");
    let index = advice["allocator"].as_u64().map(|index| index as usize);
    let name = index.and_then(|index| found["allocators"][index]["name"].as_str());
    match name {
        Some(name) => format!("{choice} {name}"),
        None => choice.to_owned(),
    }
}
