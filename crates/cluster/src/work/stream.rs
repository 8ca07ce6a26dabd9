//! Transfers between two ranks over TCP: how much arrives in a second, and how long a short message takes.

use super::{Worker, threads};
use crate::arrivals::marked;
use crate::message::{Found, Timing};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;

/// Bytes of a write or a read [B].
const BLOCK: usize = 256 << 10;
/// Bytes of a short message [B].
const MESSAGE: usize = 64;

/// Sends without a pause until the trial is over.
pub(super) fn send(
    worker: &Worker,
    to: SocketAddr,
    tag: u64,
    streams: usize,
    timing: Timing,
) -> Result<Found, String> {
    let open = |_| worker.member.connect(to, &marked(tag)).map_err(|error| error.to_string());
    let open: Vec<TcpStream> = (0..streams).map(open).collect::<Result<_, String>>()?;
    let open: Vec<Mutex<TcpStream>> = open.into_iter().map(Mutex::new).collect();
    let end = timing.start + timing.skip + timing.length;
    let late = worker.clock.wait(timing.start);
    let one = |number: usize| {
        let mut stream = open[number].lock().map_err(|error| error.to_string())?;
        let block = vec![0x5a; BLOCK];
        let mut sent = 0_u64;
        while worker.clock.now() < end && !worker.stopped() {
            match stream.write(&block) {
                Ok(count) => sent += count as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The receiver ends first where its clock is ahead.
                Err(error) if worker.clock.now() > end - 0.1 * timing.length => {
                    let _over = error;
                    break;
                }
                Err(error) => return Err(format!("sending failed: {error}")),
            }
        }
        Ok(sent)
    };
    let sent: u64 = threads(streams, one)?.into_iter().sum();
    Ok(Found { count: sent as f64, late, ..Found::default() })
}

/// Receives until the trial is over, and counts the bytes that arrive in the window.
pub(super) fn receive(
    worker: &Worker,
    tag: u64,
    streams: usize,
    timing: Timing,
) -> Result<Found, String> {
    let open = worker.arrivals.take(tag, streams).map_err(|error| error.to_string())?;
    let open: Vec<Mutex<TcpStream>> = open.into_iter().map(Mutex::new).collect();
    let (from, end) = (timing.start + timing.skip, timing.start + timing.skip + timing.length);
    let one = |number: usize| {
        let mut stream = open[number].lock().map_err(|error| error.to_string())?;
        let mut block = vec![0; BLOCK];
        // Bytes that had arrived at the begin and at the end of the window.
        let (mut total, mut before, mut last) = (0_u64, 0, 0);
        loop {
            match stream.read(&mut block) {
                Ok(0) => break,
                Ok(count) => total += count as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("receiving failed: {error}")),
            }
            let now = worker.clock.now();
            if now <= from {
                before = total;
            }
            if now <= end {
                last = total;
            }
            if now > end || worker.stopped() {
                break;
            }
        }
        Ok(last.saturating_sub(before))
    };
    let bytes: u64 = threads(streams, one)?.into_iter().sum();
    let rate = bytes as f64 / timing.length;
    if rate <= 0.0 {
        return Err("nothing arrived in the time that counts".to_owned());
    }
    Ok(Found { count: rate * timing.length, rate, seconds: timing.length, ..Found::default() })
}

/// Sends short messages and waits for each to come back. The rate is that of round trips.
pub(super) fn knock(
    worker: &Worker,
    to: SocketAddr,
    tag: u64,
    count: u32,
) -> Result<Found, String> {
    let connected = worker.member.connect(to, &marked(tag));
    let mut stream = connected.map_err(|error| error.to_string())?;
    let mut message = [7; MESSAGE];
    let mut times = Vec::new();
    for _ in 0..count {
        let begin = worker.clock.now();
        let answered = stream.write_all(&message).and_then(|()| stream.read_exact(&mut message));
        answered.map_err(|error| format!("a message did not come back: {error}"))?;
        times.push(worker.clock.now() - begin);
    }
    times.sort_by(f64::total_cmp);
    let median = forebay_engine::stats::quantile(&times, 0.5).unwrap_or(0.0);
    Ok(Found {
        count: f64::from(count),
        rate: 1.0 / median,
        seconds: times.iter().sum(),
        ..Found::default()
    })
}

/// Sends back short messages.
pub(super) fn echo(worker: &Worker, tag: u64, count: u32) -> Result<Found, String> {
    let mut open = worker.arrivals.take(tag, 1).map_err(|error| error.to_string())?;
    let Some(mut stream) = open.pop() else { return Err("no connection".to_owned()) };
    let mut message = [0; MESSAGE];
    for _ in 0..count {
        let echoed = stream.read_exact(&mut message).and_then(|()| stream.write_all(&message));
        echoed.map_err(|error| format!("a message did not arrive: {error}"))?;
    }
    Ok(Found { count: f64::from(count), ..Found::default() })
}
