//! What is run. The programs of the suite have the arguments that its script gives them, on a
//! machine with as many processors as there are here; the real ones do some seconds of what they
//! are for.

use std::env;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

/// A program and what it is asked to do.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    /// What it reads, if anything.
    pub(crate) input: Option<PathBuf>,
    /// For a server, what is done to it, and where it listens.
    pub(crate) load: Option<String>,
    pub(crate) port: Option<String>,
    /// Programs that all this needs.
    needs: Vec<String>,
}

impl Program {
    fn new(name: &str, command: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            input: None,
            load: None,
            port: None,
            needs: command.first().map(|&it| it.to_owned()).into_iter().collect(),
        }
    }

    /// What it needs and is not on this machine.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.needs.iter().map(String::as_str).find(|it| !is_there(it))
    }
}

fn is_there(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The programs of the suite, of which `built` has the executables. Left out are those that run for
/// a set time, whose like is among our own harnesses: larson, xmalloc-test and glibc-thread.
pub(crate) fn of_suite(suite: &Path, built: &Path) -> Vec<Program> {
    let processors = available_parallelism().map_or(1, usize::from);
    let (p, p2) = (&processors.to_string(), &(2 * processors).to_string());
    let espresso = suite.join("bench/espresso/largest.espresso");
    let espresso = espresso.to_string_lossy();
    let of = |name: &str, program: &str, arguments: &[&str]| {
        let program = built.join(program);
        let program = program.to_string_lossy();
        Program::new(name, &[&[program.as_ref()], arguments].concat())
    };
    let mut barnes = of("barnes", "barnes", &[]);
    barnes.input = Some(suite.join("bench/barnes/input"));
    vec![
        of("cfrac", "cfrac", &["17545186520507317056371138836327483792789528"]),
        of("espresso", "espresso", &[espresso.as_ref()]),
        barnes,
        of("alloc-test1", "alloc-test", &["1"]),
        of("alloc-testN", "alloc-test", &[p]),
        of("sh6benchN", "sh6bench", &[p2]),
        of("sh8benchN", "sh8bench", &[p2]),
        of("cache-thrashN", "cache-thrash", &[p, "1000", "1", "2000000", p]),
        of("cache-scratchN", "cache-scratch", &[p, "1000", "1", "2000000", p]),
        of("malloc-large", "malloc-large", &[]),
        of("mstressN", "mstress", &[p, "50", "25"]),
        of("mleak10", "mleak", &["5"]),
        of("rptestN", "rptest", &[p, "0", "1", "2", "500", "1000", "100", "8", "16000"]),
        of("glibc-simple", "glibc-simple", &[]),
    ]
}

/// A module of C++ for a compiler to work at.
const SOURCE: &str = "\
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
int main() {
    std::map<std::string, std::vector<std::regex>> m;
    std::unordered_map<int, std::function<int(int)>> f;
    std::mt19937 g;
    for (int i = 0; i < 9; i++) {
        m[std::to_string(i)].emplace_back(\"a*\");
        f[i] = [&](int n) { return n + int(g()); };
    }
    std::vector<std::pair<int, std::string>> v;
    for (auto &[k, r] : m) v.emplace_back(r.size(), k);
    std::sort(v.begin(), v.end());
    for (auto &[n, s] : v) std::cout << f[n](n) << s << std::regex_match(s, m[s][0]);
}
";

const PYTHON: &str = "\
import json, re
words = ['w%d' % (i * 7919 % 10007) for i in range(100000)]
for turn in range(6):
    d = {}
    for i, w in enumerate(words):
        d.setdefault(w, []).append((i, w + str(turn)))
    t = json.dumps(d)
    e = json.loads(t)
    s = sorted(e, key=lambda k: len(e[k]))
    n = len(re.findall('w[0-9]+5', t)) + len(s)
";

const PERL: &str = "\
my %h; for my $turn (1..4) { for my $i (1..300000) { my $k = \"k\" . ($i * 7919 % 50021);
push @{$h{$k}}, \"$turn:$i\"; }
my $n = 0; $n += length join ',', @{$h{$_}} for sort keys %h; %h = (); }";

const SQL: &str = "\
create table t(id integer primary key, name text, value real);
create index n on t(name);
with recursive c(i) as (select 1 union all select i + 1 from c where i < 400000)
insert into t select i, 'name' || (i * 7919 % 100003), i / 3.0 from c;
select count(*), sum(length(g)) from (select group_concat(id) g from t group by name);
select count(*) from t a join t b on a.name = b.name;
delete from t where id % 3 = 0;
select name, count(*) from t group by name order by 2 desc, 1 limit 3;
";

const REDIS_PORT: &str = "46379";

/// Real programs.
pub(crate) fn real(suite: &str) -> Vec<Program> {
    let mut server = Program::new(
        "redis",
        &["redis-server", "--port", REDIS_PORT, "--save", "", "--daemonize", "no"],
    );
    server.load = Some(format!(
        "redis-benchmark -q -p {REDIS_PORT} -P 16 -n 600000 -r 200000 -d 200 \
         -t set,get,lpush,lpop,hset"
    ));
    server.port = Some(REDIS_PORT.to_owned());
    server.needs.push("redis-benchmark".to_owned());
    let compile = "printf %s \"$0\" | g++ -std=c++17 -O1 -x c++ -c -o /dev/null -";
    let mut compiler = Program::new("g++", &["sh", "-c", compile, SOURCE]);
    compiler.needs.push("g++".to_owned());
    let mut python =
        Program::new("python", &["env", "PYTHONMALLOC=malloc", "python3", "-c", PYTHON]);
    python.needs.push("python3".to_owned());
    let z3 = Path::new(suite).join("bench/z3/test1.smt2");
    vec![
        compiler,
        python,
        Program::new("perl", &["perl", "-e", PERL]),
        Program::new("sqlite", &["sqlite3", ":memory:", SQL]),
        Program::new("z3", &["z3", "-smt2", &z3.to_string_lossy()]),
        server,
    ]
}
