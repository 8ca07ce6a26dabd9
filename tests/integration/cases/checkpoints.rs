//! Cases about checkpoints and failures, and a small program of its own that computes their times.

use forebay::report::{Cause, JobOutcome, JobReport, RecoveryOutcome, StallCause, text};

use super::{case, refusal, report_of};
use crate::runs::{Draws, simulate, within, written};

/// Returns the first job's report of a case.
fn job_report(name: &str, changes: &[(&str, &str)]) -> JobReport {
    report_of(&case(&format!("turn3/{name}"), changes)).jobs.remove(0)
}

/// Returns the recovery of the first job of a case in one replication, and when its last step ended [s].
fn recovery(name: &str, changes: &[(&str, &str)]) -> (RecoveryOutcome, f64) {
    let job = simulate(&case(&format!("turn3/{name}"), changes)).jobs.remove(0);
    (job.recovery.expect("checkpoints"), end(&job))
}

fn end(job: &JobOutcome) -> f64 {
    job.steps.last().expect("a step").end
}

#[test]
fn asynchronous_checkpoints_that_fall_due_while_one_is_written_are_never_left_out() {
    // System: a checkpoint of 10 s after each step of 1 s, 40 steps. Expectation: by default training waits for the one before,
    // 10 s a step; otherwise all 39 are begun, and those not yet written take 10 GB each.
    let name = "f10-async-interval";
    let (waits, makespan) = recovery(name, &[]);
    within(makespan, 2.0 + 38.0 * 10.0, 1e-3, "makespan");
    assert_eq!((waits.checkpoints, waits.postponed, waits.backlog), (38, 38, 1), "{waits:?}");
    within(waits.postponed_seconds, 38.0 * 9.0, 1e-3, "waits");
    for (busy, written) in [("queue", 3), ("together", 0)] {
        let (of, makespan) = recovery(name, &[("job.checkpoint.when_busy", busy)]);
        within(makespan, 40.0, 1e-3, busy);
        assert_eq!((of.checkpoints, of.unwritten), (written, 39 - written), "{of:?}");
        within(of.backlog_bytes, of.backlog as f64 * 10e9, 1e-3, busy);
    }
}

#[test]
fn a_growing_backlog_and_its_memory_are_warned_of() {
    let warnings = |changes: &[(&str, &str)]| {
        report_of(&case("turn3/f10-async-interval", changes)).warnings.join("\n")
    };
    let queue = ("job.checkpoint.when_busy", "queue");
    let said = warnings(&[queue, ("cluster.node.memory", "64 GB")]);
    assert!(said.contains("begins checkpoints faster than they are written"), "{said}");
    assert!(said.contains("take up to 360 GB, and a node has 64 GB"), "{said}");
    // Written in half a step, or waited for, they do not grow; on 400 GB they fit.
    for changes in
        [&[queue, ("job.checkpoint.bytes", "500 MB")], &[queue, ("job.checkpoint.steps", "10")]]
    {
        let said = warnings(changes);
        assert!(!said.contains("faster than they are written"), "{said}");
    }
    let said = warnings(&[queue, ("cluster.node.memory", "400 GB")]);
    assert!(!said.contains("keeps in the memory"), "{said}");
    let said = warnings(&[("cluster.node.memory", "64 GB")]);
    assert!(!said.contains("checkpoints faster") && !said.contains("keeps in"), "{said}");
}

#[test]
fn the_backlog_is_in_the_report() {
    let job = job_report("f10-async-interval", &[("job.checkpoint.when_busy", "queue")]);
    let of = job.recovery.expect("checkpoints");
    assert_eq!((of.backlog.mean, of.unwritten.mean), (Some(36.0), Some(36.0)));
    assert_eq!(of.backlog_bytes.mean, Some(360e9));
    let waits = job_report("f10-async-interval", &[]).recovery.expect("checkpoints");
    assert_eq!((waits.postponed.mean, waits.postponed_time.mean), (Some(38.0), Some(342.0)));
}

/// What happens to a checkpoint that falls due while one is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Busy {
    /// Training waits for each checkpoint.
    Synchronous,
    Wait,
    Queue,
    Together,
}

/// When checkpoints are due.
#[derive(Debug, Clone, Copy)]
enum Due {
    Steps(u64),
    Seconds(f64),
}

/// Where checkpoints are written, and what that limits.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Bytes of a checkpoint, all of them or those of the slowest node [B].
    bytes: f64,
    /// Bandwidth that all checkpoints share, and largest rate of the streams of one checkpoint [B/s].
    bandwidth: f64,
    streams: f64,
    /// Time to read a checkpoint back [s].
    read: f64,
}

impl Place {
    /// Returns the rate of each of `number` checkpoints that are written at once [B/s].
    fn rate(&self, number: usize) -> f64 {
        self.streams.min(self.bandwidth / number as f64)
    }
}

/// A job whose steps take `step` [s].
#[derive(Debug, Clone)]
struct System {
    step: f64,
    steps: u64,
    due: Due,
    pause: f64,
    busy: Busy,
    place: Place,
    /// Times of failures, ascending [s], and whether the failed node takes a part of each checkpoint with it.
    failures: Vec<(f64, bool)>,
    /// Time from a failure until the job reads its checkpoint [s].
    restart: f64,
}

/// What a job took [s], and what its checkpoints and failures did.
#[derive(Debug, Default, PartialEq)]
struct Times {
    makespan: f64,
    lost: f64,
    down: f64,
    written: u64,
    postponed: u64,
    backlog: u64,
    from_start: u64,
}

/// The small program: a job that is followed step by step.
struct Follow<'s> {
    of: &'s System,
    now: f64,
    failed: usize,
    /// For each checkpoint that is not yet written, the step whose state it has, when training went on, and the bytes that remain.
    pending: Vec<(u64, f64, f64)>,
    /// Newest complete state, and when training went on from there.
    saved: (u64, f64),
    times: Times,
}

/// A failure has stopped the job.
struct Failed;

impl Follow<'_> {
    /// Writes until `until`, or until a failure before it.
    fn advance(&mut self, until: f64) -> Result<(), Failed> {
        let failure = self.of.failures.get(self.failed).map(|of| of.0).filter(|at| *at < until);
        let end = failure.unwrap_or(until);
        while self.now < end {
            let active = match self.of.busy {
                Busy::Together => self.pending.len(),
                _ => self.pending.len().min(1),
            };
            let rate = self.of.place.rate(active.max(1));
            let least = self.pending[..active].iter().map(|of| of.2).fold(f64::INFINITY, f64::min);
            let span = (least / rate).min(end - self.now);
            self.pending[..active].iter_mut().for_each(|of| of.2 -= span * rate);
            self.now = if span < end - self.now { self.now + span } else { end };
            self.complete();
        }
        if failure.is_some() { Err(Failed) } else { Ok(()) }
    }

    fn complete(&mut self) {
        while let Some(at) = self.pending.iter().position(|of| of.2 <= 1.0) {
            let (step, ready, _) = self.pending.remove(at);
            if step > self.saved.0 {
                self.saved = (step, ready);
            }
            self.times.written += 1;
        }
    }

    /// Waits until at most `most` checkpoints are not yet written.
    fn drain(&mut self, most: usize) -> Result<(), Failed> {
        while self.pending.len() > most {
            let next = self.now + self.pending[0].2 / self.of.place.rate(1);
            self.advance(next)?;
        }
        Ok(())
    }

    /// Trains from the saved state on.
    fn train(&mut self, restarted: f64) -> Result<(), Failed> {
        let mut done = self.saved.0;
        let (mut last, mut ready) = (done, restarted);
        loop {
            self.advance(self.now + self.of.step)?;
            done += 1;
            if done == self.of.steps {
                return Ok(());
            }
            let due = match self.of.due {
                Due::Steps(every) => done >= last + every,
                Due::Seconds(every) => self.now >= ready + every,
            };
            if !due {
                continue;
            }
            if self.of.busy == Busy::Wait && !self.pending.is_empty() {
                self.drain(0)?;
                self.times.postponed += 1;
            }
            self.advance(self.now + self.of.pause)?;
            self.pending.push((done, self.now, self.of.place.bytes));
            if self.of.busy == Busy::Synchronous {
                let end = self.now + self.of.place.bytes / self.of.place.rate(1);
                self.pending[0].1 = end;
                self.advance(end)?;
                self.complete();
            } else {
                self.times.backlog = self.times.backlog.max(self.pending.len() as u64);
            }
            (last, ready) = (done, self.now);
        }
    }
}

impl System {
    /// Draws a system whose checkpoints are written to `place`, and its failed nodes; the failure of each of `nodes` destroys
    /// checkpoints or does not.
    fn draw(draws: &mut Draws, place: Place, nodes: &[bool]) -> (System, Vec<u64>) {
        let steps = 20 + draws.below(40);
        let step = draws.uniform(0.3, 2.0);
        let due = match draws.below(2) {
            0 => Due::Steps(1 + draws.below(8)),
            _ => Due::Seconds(draws.uniform(0.5, 8.0)),
        };
        let busy = [Busy::Synchronous, Busy::Wait, Busy::Queue, Busy::Together];
        let busy = busy[draws.below(4) as usize];
        let pause = if draws.below(2) == 0 { 0.0 } else { draws.uniform(0.05, 1.0) };
        let number = draws.below(4);
        let mut times: Vec<f64> =
            (0..number).map(|_| draws.uniform(0.0, 1.5 * steps as f64 * step)).collect();
        times.sort_by(f64::total_cmp);
        let failed: Vec<u64> = times.iter().map(|_| draws.below(nodes.len() as u64)).collect();
        let failures = times.into_iter().zip(failed.iter().map(|node| nodes[*node as usize]));
        let (failures, restart) = (failures.collect(), draws.uniform(0.5, 10.0));
        (System { step, steps, due, pause, busy, place, failures, restart }, failed)
    }

    /// Follows the job from its start to its end.
    fn follow(&self) -> Times {
        let (times, saved) = (Times::default(), (0, 0.0));
        let mut follow =
            Follow { of: self, now: 0.0, failed: 0, pending: Vec::new(), saved, times };
        let mut restarted = 0.0;
        while follow.train(restarted).is_err() {
            let failed = follow.now;
            follow.pending.clear();
            let mut destroyed = false;
            // A failure while the job is down begins the restart again.
            while let Some((at, destroys)) = self.failures.get(follow.failed).copied() {
                if at > follow.now {
                    break;
                }
                if destroys && follow.saved.0 > 0 {
                    (follow.saved, destroyed) = ((0, 0.0), true);
                    follow.times.from_start += 1;
                }
                follow.failed += 1;
                let read = if follow.saved.0 > 0 { self.place.read } else { 0.0 };
                follow.now = at + self.restart + read;
            }
            if destroyed || follow.times.from_start > 0 && follow.saved.0 == 0 {
                follow.times.lost = failed - follow.times.down;
            } else {
                follow.times.lost += failed - follow.saved.1.max(restarted);
            }
            follow.times.down += follow.now - failed;
            restarted = follow.now;
        }
        follow.times.makespan = follow.now;
        follow.times
    }

    /// Returns the settings of the system's checkpoints, to a storage `c`.
    fn checkpoint(&self) -> String {
        let due = match self.due {
            Due::Steps(steps) => format!("steps = {steps}"),
            Due::Seconds(seconds) => format!("interval = \"{seconds} s\""),
        };
        let busy = match self.busy {
            Busy::Synchronous => "",
            Busy::Wait => ", asynchronous = true",
            Busy::Queue => ", asynchronous = true, when_busy = \"queue\"",
            Busy::Together => ", asynchronous = true, when_busy = \"together\"",
        };
        format!("{due}, pause = \"{} s\", storage = \"c\"{busy}", self.pause)
    }

    /// Returns the times of failures as the value of `failures.at`.
    fn failures(&self) -> String {
        let at: Vec<String> = self.failures.iter().map(|of| format!("\"{} s\"", of.0)).collect();
        format!("at = [{}], restart = \"{} s\"", at.join(", "), self.restart)
    }

    #[track_caller]
    fn check(&self, job: &JobOutcome, what: &str) {
        let expected = self.follow();
        let what = format!("{what}: {self:?} {expected:?} {:?}", job.recovery);
        let of = job.recovery.expect("checkpoints");
        within(end(job), expected.makespan, 1e-3, &what);
        within(of.lost_seconds, expected.lost, 1e-3, &what);
        within(of.down_seconds, expected.down, 1e-3, &what);
        let counts = [of.checkpoints, of.postponed, of.backlog, of.from_start];
        let Times { written, postponed, backlog, from_start, .. } = expected;
        assert_eq!(counts, [written, postponed, backlog, from_start], "{what}");
        let stalled =
            job.stalls.iter().filter(|stall| stall.cause == StallCause::own(Cause::Fault));
        let stalled: f64 = stalled.map(|stall| stall.seconds).sum();
        within(stalled, expected.lost + expected.down, 1e-3, &what);
    }
}

/// A job whose data are in memory, and a storage `c` for its checkpoints.
const JOB: &str = r#"
name = "drawn"
run = { steps = 10, warm_up = "off", replications = 1 }
[cluster]
nodes = 1
node = { gpus = 8, cores = 8 }
network.nic = "1 TB/s"
[storage.ram.memory]
[storage.c.file-server]
bandwidth = "1 GB/s"
[dataset.d]
samples = 10000000
sample_size = "1 kB"
[[job]]
name = "j"
dataset = "d"
storage = "ram"
batch = 1
loader.in-memory = {}
model.step = "1 s"
"#;

#[test]
fn times_of_checkpoints_and_failures_agree_with_a_small_program() {
    // System: 400 drawn jobs of one to three nodes with one to four ranks each, with synchronous checkpoints or each kind of
    // `when_busy`, due by steps or by time, to a server with or without a largest rate for a stream, or to the nodes' own disks, and
    // with up to three failures of drawn nodes at drawn times. Expectation: makespan, lost work, time down and numbers of checkpoints
    // as the program finds them.
    let mut draws = Draws(52);
    for case in 0..400 {
        let (nodes, ranks) = (1 + draws.below(3), 1 + draws.below(4));
        let (all, each) = ((nodes * ranks) as f64, draws.below(2) == 0);
        let bytes = draws.uniform(0.1e9, 12e9).round();
        let bandwidth = draws.uniform(0.5e9, 4e9).round();
        let inside = draws.below(3) == 0;
        let replaced = draws.below(2) == 0;
        let (place, storage) = if inside {
            let write = draws.uniform(0.5e9, 4e9).round();
            let bytes = if each { bytes / nodes as f64 } else { bytes };
            let storage = format!(
                "{{ local-disk = {{ bandwidth = \"{bandwidth} B/s\", write_bandwidth = \"{write} B/s\" }} }}"
            );
            let read = bytes / bandwidth;
            (Place { bytes, bandwidth: write, streams: f64::INFINITY, read }, storage)
        } else {
            let stream = if draws.below(2) == 0 { draws.uniform(0.2e9, 4e9).round() } else { 1e12 };
            let streams = stream * if each { all } else { 1.0 };
            let storage = format!(
                "{{ file-server = {{ bandwidth = \"{bandwidth} B/s\", per_stream = \"{stream} B/s\" }} }}"
            );
            // Each rank reads all of the state.
            let read = bytes / stream.min(bandwidth / all);
            (Place { bytes, bandwidth, streams, read }, storage)
        };
        let lost = |node: u64| inside && replaced && (each || node == 0);
        let lost: Vec<bool> = (0..nodes).map(lost).collect();
        let (system, failed) = System::draw(&mut draws, place, &lost);
        let checkpoint = format!(
            "{{ {}, bytes = \"{bytes} B\", writers = \"{}\" }}",
            system.checkpoint(),
            if each { "each" } else { "first" }
        );
        let failures = format!(
            "{{ {}, read_back = true, node = \"{}\", nodes = {failed:?} }}",
            system.failures(),
            if replaced { "replaced" } else { "restarted" }
        );
        let (step, steps) = (format!("{} s", system.step), system.steps.to_string());
        let (nodes, ranks) = (nodes.to_string(), ranks.to_string());
        let mut changes = vec![
            ("run.steps", steps.as_str()),
            ("cluster.nodes", nodes.as_str()),
            ("job.nodes", nodes.as_str()),
            ("job.parallel.data.copies_per_node", ranks.as_str()),
            ("job.model.step", step.as_str()),
            ("storage.c", storage.as_str()),
            ("job.checkpoint", checkpoint.as_str()),
        ];
        if !system.failures.is_empty() {
            changes.push(("job.failures", failures.as_str()));
        }
        let job = simulate(&written(JOB, &changes)).jobs.remove(0);
        system.check(&job, &format!("case {case}"));
    }
}

#[test]
fn every_rank_writes_its_part_of_a_checkpoint_in_a_stream_of_its_own() {
    // System: 80 GB from one node of eight replicas to a server that gives 1 GB/s to each stream. Expectation: 10 s; and 80 s from
    // the first rank.
    let time = |writers: &str| {
        let job = job_report("checkpoint-ranks", &[("job.checkpoint.writers", writers)]);
        job.recovery.and_then(|of| of.checkpoint_time.mean).expect("checkpoints")
    };
    within(time("each"), 10.0, 1e-3, "each");
    within(time("first"), 80.0, 1e-3, "first");
}

#[test]
fn each_shard_of_the_first_model_copy_is_written_in_a_stream_of_its_own() {
    // System: 80 GB from two copies of a model, each on a node of eight tensor-parallel ranks, to a server that gives 1 GB/s to each
    // stream. Expectation: 10 s in the eight streams of the first copy, and 5 s in those of both.
    for (writers, expected) in [("first", 10.0), ("each", 5.0)] {
        let server = "{ file-server = { bandwidth = \"50 GB/s\", per_stream = \"1 GB/s\" } }";
        let checkpoint =
            format!("{{ steps = 5, bytes = \"80 GB\", storage = \"c\", writers = \"{writers}\" }}");
        let changes = [
            ("cluster.nodes", "2"),
            ("job.nodes", "2"),
            ("job.parallel.tensor", "{ ranks = 8, allreduces = 1, activations = \"1 B\" }"),
            ("storage.c", server),
            ("job.checkpoint", &checkpoint),
        ];
        let report = report_of(&written(JOB, &changes));
        let recovery = report.jobs[0].recovery.as_ref().expect("checkpoints");
        within(recovery.checkpoint_time.mean.expect("a time"), expected, 1e-3, writers);
    }
}

#[test]
fn nodes_write_and_read_back_their_own_parts_on_their_own_disks() {
    // System: eight nodes write 10 GB each to disks of 0.5 GB/s every 50 steps of 1 s; one fails after 200 s, and the restart takes
    // 10 s. Expectation: 20 s to write and, if the node keeps its disk, 10 s more to read 10 GB at 1 GB/s. If it is replaced, no
    // checkpoint is complete, and the job begins again at step 0.
    let of = |node: &str| recovery("checkpoint-local", &[("job.failures.node", node)]).0;
    let kept = of("restarted");
    within(kept.writing_seconds / kept.checkpoints as f64, 20.0, 1e-3, "written");
    within(kept.down_seconds, 20.0, 1e-3, "down");
    within(kept.lost_seconds, 200.0 - 140.0, 1e-3, "lost");
    assert_eq!((kept.read_backs, kept.from_start), (1, 0));
    within(kept.read_back, 80e9, 1e-3, "read back");
    let lost = of("replaced");
    within(lost.down_seconds, 10.0, 1e-3, "down");
    within(lost.lost_seconds, 200.0, 1e-3, "lost");
    assert_eq!((lost.read_backs, lost.from_start), (0, 1));
    assert_eq!(lost, recovery("checkpoint-local", &[]).0, "a failed node is replaced by default");
}

#[test]
fn replicas_that_hold_no_part_of_the_checkpoints_may_fail_without_losing_them() {
    // System: the first of eight replicas writes all of the state to its own disk: 80 GB in 160 s. Expectation: only its failure
    // destroys the checkpoints, and a drawn node is one of the eight.
    let of = |more: &[(&str, &str)]| {
        let first = [("job.checkpoint.writers", "first"), ("job.failures.at", "[\"300 s\"]")];
        recovery("checkpoint-local", &[&first[..], more].concat()).0.from_start
    };
    assert_eq!(of(&[("job.failures.nodes", "[0]")]), 1);
    assert_eq!(of(&[("job.failures.nodes", "[7]")]), 0);
    let drawn = (0..64).map(|seed| of(&[("run.seed", &seed.to_string())])).sum::<u64>();
    assert!((1..=20).contains(&drawn), "{drawn} of 64 draws are node 0");
}

#[test]
fn the_report_says_what_is_read_back_and_what_failed_nodes_took_with_them() {
    // System: 64 replicas read 980 GB each from a server of 60 GB/s. Expectation: 62.72 TB in 1,045 s.
    let short = [("run.steps", "2000"), ("run.replications", "1")];
    let scenario = case("turn3/failures-restart", &short);
    let found = report_of(&scenario);
    let of = found.jobs[0].recovery.as_ref().expect("failures");
    within(of.read_back_bytes.mean.expect("bytes"), 64.0 * 980e9, 1e-3, "bytes");
    within(of.read_back_time.mean.expect("a time"), 64.0 * 980.0 / 60.0, 1e-3, "time");
    let page = text::render(&found, 4000, false);
    assert!(page.contains("read back, 62.72 TB in 17 min 25 s"), "{page}");
    // Where failed nodes take checkpoints with them, that is said, and no interval is called the best one.
    let local = case("turn3/checkpoint-local", &[]);
    let page = text::render(&report_of(&local), 4000, false);
    assert!(
        page.contains("1 failure took a node's part of the checkpoints with it, so that the job began again at step 0"),
        "{page}"
    );
    let random = "{ mtbf = \"4000 s\", restart = \"10 s\" }";
    let of = |node: &str| {
        let failures = random.replace('}', &format!(", node = \"{node}\" }}"));
        job_report("checkpoint-local", &[("job.failures", &failures)]).recovery.expect("failures")
    };
    let lost = of("replaced");
    assert_eq!(lost.best_interval, None);
    assert!(lost.no_best_interval.expect("why").contains("takes its part of the checkpoints"));
    assert!(of("restarted").best_interval.is_some());
}

#[test]
fn nodes_that_fail_are_checked_and_remarked() {
    let wrong = |nodes: &str| refusal("turn3/checkpoint-local", &[("job.failures.nodes", nodes)]);
    let said = wrong("[8]");
    assert!(said.contains("node 8 fails, and the job has 8 nodes"), "{said}");
    assert!(said.contains("write numbers from 0 to 7"), "{said}");
    let said = wrong("[0, 1]");
    assert!(said.contains("2 nodes for 1 time in `at`"), "{said}");
    let remarks = |changes: &[(&str, &str)]| {
        case("turn3/checkpoint-local", &[&[("job.failures.node", "restarted")], changes].concat())
            .remarks
            .join("\n")
    };
    assert!(!remarks(&[]).contains("failures.node"), "{}", remarks(&[]));
    let said = remarks(&[("job.checkpoint.storage", "fs")]);
    assert!(said.contains("`job.j.failures.node` has no effect: checkpoints are not on"), "{said}");
    let said = remarks(&[("job.checkpoint.storage", "ram")]);
    assert!(
        said.contains("`job.j.failures.node` has no effect: what is in a node's memory"),
        "{said}"
    );
}

#[test]
fn other_start_times_end_the_overlap_of_checkpoints() {
    // System: eight copies write 980 GB to 120 GB/s every 10 minutes, all at once: 65 s, 9.5 % of the time. Expectation: the overlap is
    // reported; spread over the interval, each takes 8.2 s, 1.3 %.
    let found = |stagger: &str| {
        let changes = [("run.steps", "1000"), ("job.llm.stagger", stagger)];
        let report = report_of(&case("turn3/checkpoint-storm", &changes));
        let of = &report.jobs[0];
        let overlap = of.recovery.as_ref().and_then(|of| of.checkpoint_overlap.mean);
        (overlap.expect("writing"), of.figures.step_time.mean.expect("steps"))
    };
    within(found("0 s").0, 1.0, 1e-3, "overlap");
    let (overlap, step) = found("1 min 15 s");
    assert!(overlap < 0.01, "{overlap}");
    assert!((step / (5.0 * 1.0135) - 1.0).abs() < 0.003, "{step}");
}

#[test]
fn equal_jobs_that_start_at_other_times_write_checkpoints_faster() {
    // System: two jobs that write 10 GB to 1 GB/s after every 20 steps of 1 s, at once. Expectation: 20 s each, and 10 s if one starts
    // half an interval later.
    let time = |start: &str| {
        let job = JOB.replace("nodes = 1", "nodes = 2").replace("steps = 10", "steps = 400");
        let checkpoint = "checkpoint = { steps = 20, bytes = \"10 GB\", storage = \"c\" }\n";
        let (head, one) = job.split_at(job.find("[[job]]").expect("a job"));
        let other = one.replace("\"j\"", "\"k\"");
        let text = format!("{head}{one}{checkpoint}{other}{checkpoint}{start}");
        let report = report_of(&written(&text, &[]));
        let of = report.jobs[0].recovery.as_ref();
        of.and_then(|of| of.checkpoint_time.mean).expect("checkpoints")
    };
    within(time(""), 20.0, 1e-3, "together");
    within(time("start = \"15 s\"\n"), 10.0, 1e-3, "apart");
}

#[test]
fn the_overlap_of_checkpoints_is_that_of_their_transfers() {
    // System: two copies, the second later by a drawn time, that write a checkpoint of a drawn time w alone. Expectation: with an offset d
    // below w, each transfers for 2 w - d, and beside the other for 2 (w - d) of it.
    let mut draws = Draws(7);
    for case in 0..200 {
        let (alone, offset) = (draws.uniform(1.0, 8.0), draws.uniform(0.0, 12.0));
        let checkpoint =
            format!("{{ steps = 2, bytes = \"{} MB\", storage = \"c\" }}", 1e3 * alone);
        let stagger = format!("{offset} s");
        let changes = [
            ("cluster.nodes", "2"),
            ("run.steps", "3"),
            ("job.copies", "2"),
            ("job.stagger", stagger.as_str()),
            ("job.checkpoint", checkpoint.as_str()),
        ];
        let beside = 2.0 * (alone - offset).max(0.0);
        for job in simulate(&written(JOB, &changes)).jobs {
            let of = job.recovery.expect("checkpoints");
            within(
                of.transfer_seconds,
                alone + beside / 2.0,
                1e-3,
                &format!("case {case}: transfer"),
            );
            within(of.overlap_seconds, beside, 1e-3, &format!("case {case}: overlap"));
        }
    }
}
