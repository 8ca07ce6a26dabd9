//! Trainers: their host-side work on their nodes' cores for a step, and steps that run on cores.
//!
//! Each GPU has a trainer. The trainers of the GPUs that split a stage work at the same time, each on the cores of its node,
//! and the stage waits for the last of them.

use forebay_engine::{Span, Time};
use forebay_metrics::HostWork;
use forebay_model::random::Sampler;

use crate::env::{Cores, Delay, Env};
use crate::ids::{DeviceId, Ids, StationId, TokenBucketId, TrainerId};

/// The trainer of one GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trainer {
    pub(crate) device: DeviceId,
    /// Number of the trainer within the job copy.
    pub(crate) number: u32,
    /// How the trainer gets the cores of its node.
    pub(crate) cores: Cores,
    /// Token bucket of the CPU quota of its job on its node, if the quota has periods.
    pub(crate) quota: Option<TokenBucketId>,
    /// Station at which the trainers of its node take turns after their work, and the length of a turn; `None` if they need not.
    turns: Option<(StationId, Delay)>,
    /// How long it waits between its work and its turn in this step.
    wait: Span,
    /// Work in progress.
    doing: Doing,
}

/// Host-side work that a trainer does for a step.
#[derive(Debug, Clone, Copy)]
enum Doing {
    /// Its threads work; so many ends of parts of their work are still to be reported.
    Threads(u32),
    /// Since this instant its threads have been done, and it waits without a core.
    Waiting(Time),
    /// Since this instant its threads have been done; it waits for its turn, or has it.
    Turn(Time),
}

impl Trainer {
    /// Returns a trainer that does nothing yet.
    pub(crate) fn new(
        (device, number): (DeviceId, u32),
        cores: Cores,
        quota: Option<TokenBucketId>,
        turns: Option<(StationId, Delay)>,
    ) -> Trainer {
        Trainer { device, number, cores, quota, turns, wait: Span::ZERO, doing: Doing::Threads(0) }
    }

    /// Begins the work of the trainer's threads. They are done after [`end_part`](Trainer::end_part) was called `parts` times; then the
    /// trainer waits for `wait` without a core.
    pub(crate) fn begin(&mut self, parts: u32, wait: Span) {
        (self.doing, self.wait) = (Doing::Threads(parts), wait);
    }

    /// Returns whether its threads work, or have just ended.
    pub(crate) fn works(&self) -> bool {
        matches!(self.doing, Doing::Threads(_))
    }

    /// Returns the station whose server the trainer, or one of its threads, has now; `None` if its threads share cores.
    pub(crate) fn station(&self) -> Option<StationId> {
        match self.doing {
            Doing::Threads(_) => self.cores.slots().map(|(station, _)| station),
            Doing::Waiting(_) => None,
            Doing::Turn(_) => self.turns.map(|(station, _)| station),
        }
    }

    /// Records at `now` the end of a part of its threads' work, of its wait, or of its turn; returns what comes next.
    pub(crate) fn end_part(&mut self, now: Time) -> Next {
        match self.doing {
            Doing::Threads(parts) if parts > 1 => {
                self.doing = Doing::Threads(parts - 1);
                Next::Threads
            }
            Doing::Threads(_) if self.wait > Span::ZERO => {
                self.doing = Doing::Waiting(now);
                Next::Wait(Delay { span: self.wait, lane: None })
            }
            Doing::Threads(_) => self.begin_turn(now, now),
            Doing::Waiting(since) => self.begin_turn(since, now),
            Doing::Turn(since) => self.end(since, now),
        }
    }

    /// Begins its turn, if trainers take turns; its threads have been done since `since`.
    fn begin_turn(&mut self, since: Time, now: Time) -> Next {
        match self.turns {
            Some((station, length)) => {
                self.doing = Doing::Turn(since);
                Next::Turn(station, length)
            }
            None => self.end(since, now),
        }
    }

    fn end(&mut self, since: Time, now: Time) -> Next {
        self.doing = Doing::Threads(0);
        Next::Done(now.since(since))
    }

    /// Returns for how long the trainer has waited since its threads were done, for its turn as well, at `now`; no time if they work, or if
    /// all is over.
    pub(crate) fn after_threads(&self, now: Time) -> Span {
        match self.doing {
            Doing::Threads(_) => Span::ZERO,
            Doing::Waiting(since) | Doing::Turn(since) => now.since(since),
        }
    }
}

/// What comes next of a trainer's host-side work for a step.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Next {
    /// Other parts of its threads' work, which are in progress.
    Threads,
    /// A wait of this length.
    Wait(Delay),
    /// A turn of this length at this station.
    Turn(StationId, Delay),
    /// Nothing. What came after the threads' work took this time.
    Done(Span),
}

/// The settings of the host-side work that each trainer of a job does for a step.
#[derive(Debug, Clone)]
pub(crate) struct LaunchRun {
    /// Core-seconds of each thread for a step [s].
    pub(crate) work: Sampler,
    /// Time for which a trainer then waits, drawn anew for each trainer and step [s]; `None` if it does not.
    pub(crate) varying: Option<Sampler>,
    /// Core-seconds of the trainer to take a batch from the loader, before the step [s].
    pub(crate) taking: f64,
    pub(crate) threads: u32,
    /// Whether the device computes during the host-side work.
    pub(crate) overlap: bool,
}

/// The trainers of a device, and the work on cores that they are doing for a step.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Launching {
    trainers: Ids<TrainerId>,
    host: HostWork,
    /// Number of trainers that are still working.
    open: u32,
    /// The threads of the device's step, if the device trains on cores and has no host-side work.
    threads: CoreThreads,
}

impl Launching {
    /// Returns trainers that do nothing yet.
    pub(crate) fn of(trainers: Ids<TrainerId>) -> Launching {
        Launching { trainers, ..Launching::default() }
    }

    /// Returns the trainers.
    pub(crate) fn trainers(&self) -> Ids<TrainerId> {
        self.trainers
    }

    /// Begins the trainers' host-side work for a step at `now`; [`add`](Launching::add) adds each trainer's.
    pub(crate) fn begin(&mut self, now: Time) {
        *self = Launching {
            host: HostWork { since: now, ..HostWork::default() },
            ..Launching::of(self.trainers)
        };
    }

    /// Adds a trainer whose threads each take `work` core-seconds [s].
    pub(crate) fn add(&mut self, work: f64) {
        self.host.work = self.host.work.max(work);
        self.open += 1;
    }

    /// Records that `quota` has stopped threads of a trainer at times until now.
    pub(crate) fn note_throttling(&mut self, env: &Env, quota: Option<TokenBucketId>) {
        let stopped = quota.map(|b| env.buckets[b].closed(self.host.since, env.now));
        self.host.throttled = self.host.throttled.max(stopped.unwrap_or(Span::ZERO));
    }

    /// Records that a trainer is done, `after` the end of its threads; returns whether all trainers are.
    pub(crate) fn end_trainer(&mut self, after: Span) -> bool {
        self.host.after = self.host.after.max(after);
        self.open -= 1;
        self.open == 0
    }

    /// Returns whether host-side work is in progress.
    pub(crate) fn is_working(&self) -> bool {
        self.open > 0
    }

    /// Returns the host-side work of the step.
    pub(crate) fn work(&self) -> HostWork {
        self.host
    }

    /// Begins `number` threads of the device's step, each of which takes `span` on an undisturbed core; `together` of them have got
    /// their cores, and end together.
    pub(crate) fn begin_threads(&mut self, number: u32, together: u32, span: Span) {
        self.threads = CoreThreads { open: number, together, span };
    }

    /// Ends the threads of the device's step that end next; returns their number, and whether all threads have ended.
    pub(crate) fn end_threads(&mut self) -> (u32, bool) {
        let ended = self.threads.end();
        (ended, self.threads.open == 0)
    }

    /// Returns the time that each thread of the device's step takes on an undisturbed core.
    pub(crate) fn span(&self) -> Span {
        self.threads.span
    }

    /// Forgets the work in progress, which has been cancelled.
    pub(crate) fn stop(&mut self) {
        *self = Launching::of(self.trainers);
    }
}

/// How a model copy uses the node's cores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuThreads {
    pub(crate) number: u32,
    /// Speed of a core relative to an undisturbed core, when these threads have the node to themselves. This was the case when
    /// the step time was measured.
    pub(crate) speed: f64,
}

/// The threads of a device's step that have not computed to the end, on cores that serve one thread after the other.
#[derive(Debug, Clone, Copy, Default)]
struct CoreThreads {
    open: u32,
    /// Number of threads that got their cores when the step began, and end together.
    together: u32,
    /// Time that each thread takes on an undisturbed core.
    span: Span,
}

impl CoreThreads {
    /// Ends the threads that end next; returns their number.
    fn end(&mut self) -> u32 {
        let ended = std::mem::take(&mut self.together).max(1);
        self.open -= ended;
        ended
    }
}
