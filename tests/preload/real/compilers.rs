//! gcc and g++: short-lived processes with much memory, which must make the same file bit by bit.

use std::fmt::Write as _;

use super::Scratch;
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::same_with_and_without;

/// Functions in the generated file.
const FUNCTIONS: u32 = 250;

/// A file of C with loops, switches, structures and calls of all that came before.
fn c_source() -> String {
    let mut source = String::from("#include <stdio.h>\n#include <string.h>\n");
    for n in 0..FUNCTIONS {
        let (mask, step) = (n % 31 + 1, n % 6 + 2);
        let callee = if n == 0 { "x".to_owned() } else { format!("f{}(x >> 1)", n * 7 % n) };
        write!(
            source,
            "struct s{n} {{ long a[{step}]; char name[{mask}]; double d; }};
static long f{n}(long x)
{{
    struct s{n} s;
    memset(&s, (int)x, sizeof s);
    for (int i = 0; i < {step}; i++)
        s.a[i] += x * i + {n};
    s.d = (double)x / {step};
    switch (x & 7) {{
    case 0: return s.a[0] ^ {n};
    case 1: return (long)s.d + {callee};
    case {step}: return s.name[{mask} - 1] * 3;
    default: return s.a[{step} - 1] + (x > {n} ? {callee} : -x);
    }}
}}
"
        )
        .expect("strings can be written to");
    }
    source += "int main(void)\n{\n    long sum = 0;\n    for (long x = 0; x < 100; x++) {\n";
    for n in 0..FUNCTIONS {
        writeln!(source, "        sum = sum * 31 + f{n}(x);").expect("strings can be written to");
    }
    source + "    }\n    printf(\"%lu\\n\", (unsigned long)sum);\n    return 0;\n}\n"
}

/// A file of C++ with many instances of the standard library's templates.
fn cxx_source() -> String {
    let headers = ["algorithm", "functional", "iostream", "map", "memory", "string", "vector"];
    let mut source = String::new();
    for header in headers {
        writeln!(source, "#include <{header}>").expect("strings can be written to");
    }
    source += "template <int N> struct key {
    int value;
    bool operator<(const key &other) const { return value * N % 101 < other.value * N % 101; }
};
template <int N> long work()
{
    std::map<key<N>, std::vector<std::unique_ptr<std::string>>> map;
    for (int i = 0; i < 1000; i++)
        map[{i}].push_back(std::make_unique<std::string>(i % 50, 'a' + N % 26));
    std::function<long(long)> add = [&](long sum) {
        for (auto &[key, texts] : map)
            for (auto &text : texts)
                sum += (long)text->size() * key.value;
        return sum;
    };
    return add(N);
}
int main()
{
    std::vector<long> results;\n";
    for n in 1..=20 {
        writeln!(source, "    results.push_back(work<{n}>());").expect("strings can be written to");
    }
    source
        + "    std::sort(results.begin(), results.end());
    for (long result : results)
        std::cout << result << '\\n';
}
"
}

/// Compiles a file, links it and runs the program, all under Freehold. The assembler and the linker
/// ran under it, too, as no process may have run without; what their files are called differs.
fn compiles(compiler: &str, parts: &[&str], file: &str, source: &str, flags: &str) {
    let (Some(bash), Some(_)) = (tools::find("bash"), tools::find(compiler)) else { return };
    let commands = format!(
        "set -e
        {compiler} {flags} -c {file} -o object.o
        {compiler} object.o -o program
        sha256sum object.o program
        ./program"
    );
    let scratch = Scratch::new();
    let expected = [parts, &["collect2", "program"]].concat();
    same_with_and_without(&expected, || {
        scratch.dir_of(Child::new(&bash).args(["-c", &commands]), &[(file, source)])
    });
}

#[test]
fn gcc_makes_the_same_object_file() {
    compiles("gcc", &["cc1"], "generated.c", &c_source(), "-O2 -g -Wall");
}

#[test]
fn gcc_with_pipes_makes_the_same_object_file() {
    compiles("gcc", &["cc1"], "generated.c", &c_source(), "-pipe -O0 -g3 -fPIC");
}

#[test]
fn gxx_makes_the_same_object_file() {
    compiles("g++", &["cc1plus"], "generated.cpp", &cxx_source(), "-std=c++17 -O1 -g");
}
