//! `deploy/slurm.sh` under Slurm itself: a cluster of this one machine, for one test.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::deploy::file;
use crate::support::{directory, json, read, run, skipped};

const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "sinfo", "sbatch"];

/// How long the cluster may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// The daemons of a cluster, which end with it.
struct Cluster {
    directory: TempDir,
    daemons: Vec<Child>,
}

impl Cluster {
    /// Starts one; `None`, with a word, without Slurm.
    fn start() -> Option<Self> {
        for program in PROGRAMS {
            let found = Command::new(program).arg("--version").output();
            if let Err(error) = found {
                skipped(&format!("no {program}: {error}"));
                return None;
            }
        }
        let mut cluster = Self { directory: directory(), daemons: Vec::new() };
        cluster.configure();
        cluster.authenticate();
        cluster.daemon("slurmctld", &["-D", "-i"]);
        cluster.daemon("slurmd", &["-D"]);
        cluster.wait_until_idle();
        Some(cluster)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, contents: &[u8], mode: u32) {
        fs::write(self.path(name), contents).expect("writable");
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).expect("our own file");
    }

    fn configure(&self) {
        let own = self.directory.path().display();
        let host = read(Path::new("/proc/sys/kernel/hostname"));
        let host = host.trim().split('.').next().expect("a name");
        let user = Command::new("id").arg("-un").output().expect("id can be started").stdout;
        let user = String::from_utf8(user).expect("a name");
        let user = user.trim();
        // Whoever else has a cluster on this machine has other ports.
        let port = 20_000 + std::process::id() % 20_000;
        let cpus = thread::available_parallelism().expect("known");
        let configuration = format!(
            "ClusterName=test\n\
             SlurmctldHost={host}(127.0.0.1)\n\
             SlurmUser={user}\n\
             SlurmdUser={user}\n\
             AuthInfo=socket={own}/munge.sock\n\
             CredType=cred/munge\n\
             StateSaveLocation={own}/state\n\
             SlurmdSpoolDir={own}/spool\n\
             SlurmctldPidFile={own}/slurmctld.pid\n\
             SlurmdPidFile={own}/slurmd.pid\n\
             SlurmctldPort={port}\n\
             SlurmdPort={}\n\
             ProctrackType=proctrack/pgid\n\
             TaskPlugin=task/none\n\
             SelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus}\n\
             PartitionName=all Nodes=ALL Default=YES State=UP\n",
            port + 1,
        );
        self.write("slurm.conf", configuration.as_bytes(), 0o644);
        fs::create_dir(self.path("state")).expect("writable");
        fs::create_dir(self.path("spool")).expect("writable");
    }

    /// Starts the daemon through which the others know each other.
    fn authenticate(&mut self) {
        let key: Vec<u8> = (0..=u8::MAX).collect();
        self.write("munge.key", &key, 0o400);
        let own = self.directory.path().display();
        let options = [
            format!("--key-file={own}/munge.key"),
            format!("--socket={own}/munge.sock"),
            format!("--pid-file={own}/munged.pid"),
            format!("--log-file={own}/munged.log"),
            format!("--seed-file={own}/munge.seed"),
        ];
        let mut all = vec!["--foreground", "--force"];
        all.extend(options.iter().map(String::as_str));
        self.daemon("munged", &all);
    }

    /// The environment in which Slurm's programs find this cluster.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.path("slurm.conf")).current_dir(self.directory.path());
        command.env("FREEHOLD", env!("CARGO_BIN_EXE_freehold"));
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
        command
    }

    fn daemon(&mut self, program: &str, arguments: &[&str]) {
        let log = File::create(self.path(&format!("{program}.out"))).expect("writable");
        let error = log.try_clone().expect("a second descriptor");
        let child = self.command(program).args(arguments).stdout(log).stderr(error).spawn();
        self.daemons.push(child.expect("it was found"));
    }

    fn wait_until_idle(&self) {
        let begun = Instant::now();
        loop {
            let nodes = self.command("sinfo").args(["-h", "-o", "%T"]).output();
            if nodes.expect("it was found").stdout == b"idle\n" {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "the cluster is not ready: {}", self.logs());
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn logs(&self) -> String {
        PROGRAMS
            .iter()
            .map(|own| self.path(&format!("{own}.out")))
            .filter(|own| own.exists())
            .map(|own| read(&own))
            .collect()
    }

    fn submit(&self, options: &[&str], arguments: &[&str]) -> Output {
        let script = file("slurm.sh");
        let mut command = self.command("sbatch");
        command.args(options).arg(script).args(arguments).output().expect("it was found")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ = daemon.wait();
        }
    }
}

#[test]
fn slurm_takes_the_array_and_runs_a_shard_in_each_task() {
    let Some(cluster) = Cluster::start() else { return };
    let taken = cluster.submit(&["--test-only"], &["all"]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));

    let tiny = ["larson", "--seconds", "0.02", "--repeat", "1", "-a", "system", "--threads", "1,2"];
    let ended = cluster.submit(&["--array=1-2", "--wait"], &tiny);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let shard = |number: u32| cluster.path(&format!("results/shard-{number}.json"));
    let whole = cluster.path("whole.json");
    let files = [shard(1), shard(2), whole.clone()].map(|own| own.to_string_lossy().into_owned());
    run(&["report", &files[0], &files[1], "-o", &files[2]]).with(0);
    let document = json(&read(&whole));
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(2));

    let refused = cluster.submit(&["--array=1-2", "--wait"], &["larsen"]);
    assert_eq!(refused.status.code(), Some(2), "the status of bench is not passed on");
}
