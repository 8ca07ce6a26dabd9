//! Surveys of a cluster whose ranks answer by a script, over connections of this machine's loopback.

use super::{Order, Report, Survey};
use crate::arrivals::Member;
use crate::control;
use crate::crew::{Crew, Gate};
use crate::message::{Facts, Files, Found, FromRank, Task, ToRank};
use crate::rank::CONTROL;
use crate::secret::{Run, Secret};
use forebay_calibrate::probe::{ClusterSettings, Journal};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

static GOES_ON: AtomicBool = AtomicBool::new(false);

/// A storage that answers reads, in no time, with the figures of its script.
struct Storage {
    /// Latency of the idle storage [s].
    idle: f64,
    /// Trials of reads from which on the storage is `slower`, and the factor.
    after: usize,
    slower: f64,
    /// Checks for how many a slower storage lasts.
    lasts: usize,
    /// Trials of reads from which on it answers nothing.
    hangs: usize,
    /// Trials of reads, and checks of the idle storage, so far.
    trials: usize,
    checks: usize,
}

impl Storage {
    /// Answers a task; `None` while the storage hangs.
    fn answer(&mut self, task: &Task) -> Option<Found> {
        if self.trials >= self.hangs {
            return None;
        }
        if let Task::Checkpoint { streams, bytes, .. } = task {
            let count = *streams as f64 * *bytes as f64;
            return Some(Found { count, rate: count, seconds: 1.0, ..Found::default() });
        }
        let Task::Read { files: Files::Written { size, .. }, streams, timing, .. } = task else {
            return Some(Found::default());
        };
        // Only checks of the idle storage have so short a window.
        let checks = timing.length < 0.3;
        let mut latency = self.idle;
        if self.trials >= self.after && checks {
            self.checks += 1;
            latency *= if self.checks <= self.lasts { self.slower } else { 1.0 };
        }
        self.trials += usize::from(!checks);
        let rate = *streams as f64 / latency;
        let figures = [
            ("latency_mean", latency),
            ("latency_p50", latency),
            ("bytes", rate * timing.length * *size as f64),
        ];
        let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
        let seconds = timing.length;
        Some(Found { count: rate * seconds, rate, seconds, figures, ..Found::default() })
    }
}

/// Joins as a rank, and answers every task by the storage.
fn script(member: &Member, address: SocketAddr, storage: &Mutex<Storage>) {
    let stream = member.connect(address, CONTROL).expect("a connection");
    let (to, mut from) = control::split(stream).expect("two ends");
    let node = format!("n{}", member.rank + 1);
    let facts = Box::new(Facts::default());
    to.send(&FromRank::Joined { node, address, facts }).expect("sent");
    let begin = Instant::now();
    loop {
        let answer = match from.message::<ToRank>() {
            Ok(ToRank::Clock { number }) => {
                let here = begin.elapsed().as_secs_f64();
                FromRank::Clock { number, here, wall: here }
            }
            Ok(ToRank::Do { id, task }) => {
                let answer = storage.lock().expect("a storage").answer(&task);
                let Some(found) = answer else { continue };
                FromRank::Done { id, result: Ok(found) }
            }
            Ok(ToRank::Beat | ToRank::Stop) => continue,
            Ok(ToRank::End) | Err(_) => return,
        };
        to.send(&answer).expect("sent");
    }
}

/// Joins two ranks that share a storage.
fn crew(storage: Storage) -> Crew {
    let (secret, run) = (Secret::new().expect("bytes"), Run::new().expect("bytes"));
    let member = |rank| Member { secret: secret.clone(), run, rank };
    let gate = Gate::open("127.0.0.1:0".parse().expect("an address"), member(0)).expect("a gate");
    let address = gate.address().expect("an address");
    let storage = Arc::new(Mutex::new(storage));
    for rank in 0..2 {
        let (member, storage) = (member(rank), storage.clone());
        thread::spawn(move || script(&member, address, &storage));
    }
    gate.admit(2, &GOES_ON, &mut Vec::new).expect("a crew")
}

/// Measures this storage: reads by one and by two nodes, with one and with four threads, opens and writes. Returns the report, and the
/// numbers of nodes and threads of the samples of reads.
fn reads(storage: Storage) -> (Report, Vec<[f64; 2]>) {
    let place = tempfile::tempdir().expect("a directory");
    let settings = "disk = \"1 MiB\"\nsize = [\"16 KiB\"]\nstreams = [1, 4]\ntrials = 1\n\
        checkpoint = \"1 MiB\"\n";
    let settings: ClusterSettings = toml::from_str(settings).expect("settings");
    let order = Order {
        settings,
        plan: ("scripted".to_owned(), String::new()),
        alone: 0,
        only: ["shared-read", "shared-open", "shared-write"].map(str::to_owned).into(),
        alone_budget: 1.0,
        seed: 1,
        folder: place.path().join("files"),
        data: Vec::new(),
        deadline: Instant::now() + Duration::from_secs(60),
    };
    let mut journal = Journal::open(&place.path().join("samples.jsonl")).expect("a journal");
    let mut crew = crew(storage);
    crew.grace = Duration::from_secs(1);
    let on = &mut |_: super::Event<'_>| {};
    let survey = Survey::new(&mut crew, &order, &mut journal, &GOES_ON, on);
    let report = survey.run().expect("a report");
    crew.end();
    let reads = journal.samples().iter().filter(|sample| sample.probe == "shared-read");
    let kinds = reads.map(|sample| [sample.setting("nodes"), sample.setting("streams")]).collect();
    (report, kinds)
}

/// System: a storage whose idle latency of 5 ms rises to 15.5 ms after the reads by one node with one and with four threads. Expectation:
/// the probe ends there and says why; the samples before it are kept. If the latency rises to 14 ms only, or for one check only, or from
/// 0.5 ms to 2 ms, which is too little to matter, all is measured.
#[test]
fn reads_end_when_the_latency_of_the_idle_storage_has_tripled() {
    let storage = |idle: f64, slower: f64, lasts: usize| Storage {
        idle,
        // The load that names slow nodes has a trial by each node.
        after: 3,
        slower,
        lasts,
        hangs: usize::MAX,
        trials: 0,
        checks: 0,
    };
    let (report, kinds) = reads(storage(5e-3, 3.1, usize::MAX));
    assert_eq!(kinds, [[1.0, 1.0], [1.0, 4.0], [1.0, 4.0]], "{report:?}");
    let said = &report.failures[0];
    assert!(said.starts_with("shared-read: a read of the idle storage takes 15.5 ms"), "{said}");
    assert!(said.contains("instead of 5.0 ms at the beginning"), "{said}");
    for (idle, slower, lasts) in [(5e-3, 2.8, usize::MAX), (5e-3, 9.0, 1), (5e-4, 4.0, usize::MAX)]
    {
        let (report, kinds) = reads(storage(idle, slower, lasts));
        assert!(report.failures.is_empty(), "{slower}, {lasts}: {report:?}");
        assert_eq!(kinds.iter().filter(|of| of[0] == 2.0).count(), 4, "{slower}, {lasts}");
    }
}

/// System: a storage that answers nothing from the third trial of reads on; ranks count as hanging after a second. Expectation: the first rank
/// that uses it is lost, with its node's name; what else uses the storage is left out at once, so that no other rank hangs; samples are kept.
#[test]
fn a_storage_that_hangs_takes_one_rank_and_no_more_time() {
    let begin = Instant::now();
    let hangs = Storage {
        idle: 5e-3,
        after: usize::MAX,
        slower: 1.0,
        lasts: 0,
        hangs: 2,
        trials: 0,
        checks: 0,
    };
    let (report, kinds) = reads(hangs);
    assert_eq!(kinds, [[1.0, 1.0], [1.0, 4.0]], "{report:?}");
    let said =
        ["shared-read: n", "shared-open: left out", "shared-write: left out", "working files"];
    assert_eq!(report.failures.len(), said.len(), "{report:?}");
    for (found, said) in report.failures.iter().zip(said) {
        assert!(found.starts_with(said), "{report:?}");
    }
    assert!(report.failures[0].contains("does its storage or network hang"), "{report:?}");
    assert!(report.left_files && begin.elapsed() < Duration::from_secs(10));
}
