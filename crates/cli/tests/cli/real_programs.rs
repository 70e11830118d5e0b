//! `freehold diagnose` on programs that nobody here wrote, whose threads' time is known to go
//! elsewhere than into the allocator.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{directory, json, run, skipped};

/// For how many seconds is observed: longer if the verdict was wrong, since a machine that is busy
/// with other things shows little of a program.
const SECONDS: [&str; 3] = ["1.5", "3", "6"];

/// Insists on one of these verdicts in one of some attempts, and returns what was said.
fn insist_on_one(verdicts: &[&str], diagnose: impl Fn(&str) -> Value) -> Value {
    let mut last = Value::Null;
    for seconds in SECONDS {
        last = diagnose(seconds);
        if verdicts.iter().any(|&verdict| last["cause"] == verdict) {
            return last;
        }
    }
    panic!("none of {verdicts:?} but {last:#}");
}

/// Insists on this verdict in one of some attempts, and returns what was said.
fn insist(verdict: &str, diagnose: impl Fn(&str) -> Value) -> Value {
    insist_on_one(&[verdict], diagnose)
}

/// Whether a program can be run.
fn is_installed(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let found = version.is_ok_and(|status| status.success());
    if !found {
        skipped(&format!("{program} is not installed"));
    }
    found
}

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("it was found before"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_pool_of_python_threads_waits_for_the_lock_of_the_interpreter() {
    const SOURCE: &str = "
import sys, time, json
from concurrent.futures import ThreadPoolExecutor
end = time.monotonic() + float(sys.argv[1])
text = json.dumps({str(n): list(range(20)) for n in range(200)})
def parse(_):
    while time.monotonic() < end:
        json.loads(text)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(parse, range(8)))
";
    // The system's has no names of functions, as a rule; another may have them.
    let mut checked = Vec::new();
    for python in ["/usr/bin/python3", "python3"] {
        let knows = "import sys; print(sys.implementation.name, sys.executable, \
                     getattr(sys, '_is_gil_enabled', lambda: True)())";
        let Ok(told) = Command::new(python).args(["-c", knows]).output() else { continue };
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let is_suitable = told.starts_with("cpython") && told.trim_end().ends_with("True");
        if !is_suitable || checked.contains(&told) {
            continue;
        }
        checked.push(told);
        let found = insist("other_lock", |seconds| {
            let words = ["diagnose", "--json", "--", python, "-c", SOURCE, seconds];
            json(&run(&words).with(0).out)
        });
        let name = found["locks"][0]["name"].as_str().unwrap_or_default();
        assert!(name.contains("_PyRuntime"), "{found:#}");
    }
    if checked.is_empty() {
        skipped("no python3 with one lock");
    }
}

#[test]
fn sqlite_that_counts_computes() {
    if !is_installed("sqlite3") {
        return;
    }
    let source = "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted \
                  WHERE n < 3000000) SELECT sum(n % 7) FROM counted";
    insist("computing", |seconds| {
        let words = ["diagnose", "--json", "-d", seconds, "--", "sqlite3", ":memory:", source];
        json(&run(&words).with(0).out)
    });
}

#[test]
fn a_redis_server_under_load_computes() {
    if !is_installed("redis-server") || !is_installed("redis-benchmark") {
        return;
    }
    let directory = directory();
    let socket = directory.path().join("socket");
    let mut server = Running::start(
        Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .current_dir(directory.path()),
    );
    let answers = |socket: &Path| {
        let mut asked = Command::new("redis-benchmark");
        asked.arg("-s").arg(socket).args(["-q", "-n", "1", "-c", "1", "-t", "ping"]);
        let asked = asked.stdout(Stdio::null()).stderr(Stdio::null()).status();
        socket.exists() && asked.is_ok_and(|status| status.success())
    };
    while !answers(&socket) {
        let ended = server.0.try_wait().expect("ours");
        assert!(ended.is_none(), "the server has ended: {ended:?}");
        std::thread::yield_now();
    }
    // More than it can serve for as long as it is observed.
    let load = ["-q", "-n", "1000000000", "-c", "50", "-P", "16", "-r", "100000", "-t", "get,set"];
    let load = Running::start(Command::new("redis-benchmark").arg("-s").arg(&socket).args(load));
    let pid = server.0.id().to_string();
    let found = insist("computing", |seconds| {
        json(&run(&["diagnose", "--json", "-d", seconds, "-p", &pid]).with(0).out)
    });
    drop(load);
    let compare = found["compare"].as_str();
    // It has put a title in the place of its command line.
    assert!(compare.is_none_or(|line| line.contains(" -- redis-server --")), "{found:#}");
}

#[test]
fn a_mariadb_server_under_sysbench_is_no_matter_of_the_allocator() {
    if !["mariadbd", "mariadb", "sysbench"].into_iter().all(is_installed) {
        return;
    }
    let directory = directory();
    let (data, socket) = (directory.path().join("data"), directory.path().join("socket"));
    let (data, socket) = (data.to_string_lossy(), socket.to_string_lossy());
    let is_root = rustix::process::geteuid().is_root();
    let user = is_root.then_some("--user=root");
    let install = Command::new("mariadb-install-db")
        .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
        .arg(format!("--datadir={data}"))
        .args(user)
        .output()
        .expect("it comes with the server");
    assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stdout));
    let mut server = Running::start(
        Command::new("mariadbd")
            .args(["--no-defaults", "--skip-networking"])
            .args([format!("--datadir={data}"), format!("--socket={socket}")])
            .args(user),
    );
    let ask = || {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-u", "root", "-e", "create database sbtest", "-S", &socket]);
        client.stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    while !ask().is_ok_and(|status| status.success()) {
        let ended = server.0.try_wait().expect("ours");
        assert!(ended.is_none(), "the server has ended: {ended:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let sysbench = || {
        let mut sysbench = Command::new("sysbench");
        sysbench.args(["oltp_read_only", "--mysql-user=root", "--tables=1", "--table-size=5000"]);
        sysbench.arg(format!("--mysql-socket={socket}"));
        sysbench
    };
    let prepared = sysbench().arg("prepare").output().expect("it was found before");
    assert!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stdout));
    let load = Running::start(sysbench().args(["--threads=64", "--time=600", "run"]));
    let pid = server.0.id().to_string();
    // How many processors there are decides which of the two.
    let found = insist_on_one(&["starved", "computing"], |seconds| {
        json(&run(&["diagnose", "--json", "-d", seconds, "-p", &pid]).with(0).out)
    });
    drop(load);
    let share = found["findings"]["allocator_cpu_share"].as_f64();
    assert!(share.is_some_and(|share| share < 0.25), "{found:#}");
}
