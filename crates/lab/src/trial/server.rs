//! A program that is a server: waiting until it answers, and driving it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use freehold_model::{Failure, FailureKind, Load};

use super::shell;
use crate::lifetime::Lifetime;

/// How long a connection to this machine may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Between two looks whether a server is ready.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Between two looks whether a port is free: a server that is about to end is not to be flooded.
const KNOCK_EVERY: Duration = Duration::from_millis(100);

/// The addresses of this machine.
const LOCAL: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// How long the port of a server that has ended may stay in use.
const FREE_WITHIN: Duration = Duration::from_secs(5);

/// Makes sure that it will be our server that answers.
pub(super) fn expect_silence(load: &Load) -> Result<(), Failure> {
    let Some(port) = load.port else { return Ok(()) };
    let deadline = Instant::now() + FREE_WITHIN;
    while !is_silent(port) {
        if Instant::now() >= deadline {
            let detail = format!("something else answers at port {port}: end it first");
            return Err(Failure { kind: FailureKind::NotStarted, detail });
        }
        thread::sleep(KNOCK_EVERY);
    }
    Ok(())
}

/// Waits until the server is ready.
pub(super) fn wait_until_ready(
    load: &Load,
    server: &Lifetime,
    timeout: Duration,
    give_up: &AtomicBool,
) -> Result<(), Failure> {
    let failed = |kind, detail: &str| Err(Failure { kind, detail: detail.to_owned() });
    let deadline = Instant::now() + timeout;
    loop {
        if server.has_ended().unwrap_or(true) {
            return failed(FailureKind::Failed, "the server ended before it was ready");
        }
        if is_ready(load, deadline.saturating_duration_since(Instant::now()), give_up) {
            return Ok(());
        }
        if give_up.load(Ordering::Relaxed) {
            return failed(FailureKind::Failed, "interrupted");
        }
        if Instant::now() >= deadline {
            return failed(FailureKind::TimedOut, "the server did not become ready in time");
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn is_ready(load: &Load, timeout: Duration, give_up: &AtomicBool) -> bool {
    let succeeds = |command: &str| shell::succeeds(command, timeout, give_up);
    load.port.is_none_or(answers) && load.ready.as_deref().is_none_or(succeeds)
}

fn answers(port: u16) -> bool {
    LOCAL.iter().any(|&address| connect(address, port).is_ok())
}

/// Whether nobody listens. Somebody who listens and does not accept is not silence.
fn is_silent(port: u16) -> bool {
    let is_refused = |error: io::Error| error.kind() != io::ErrorKind::TimedOut;
    LOCAL.iter().all(|&address| connect(address, port).is_err_and(is_refused))
}

fn connect(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::new(address, port), CONNECT_WITHIN)
}
