//! Samples: each sample read is enqueued, and then taken out or still inside.

use forebay::report::JobOutcome;
use forebay::scenario::{BatchInterval, Job, QueueKind, Resume, Scenario, Stop};

use super::{models, window};

pub(super) fn audit_samples(name: &str, scenario: &Scenario, job: &Job, copy: &JobOutcome) {
    let counts = copy.samples;
    let smaller = job.smaller_batches(&scenario.datasets[job.dataset]);
    let fails = copy.recovery.as_ref().is_some_and(|of| of.failures > 0);
    // Samples of an epoch that begins again are not fresh.
    let again = fails && job.failures.as_ref().is_some_and(|of| of.resume == Resume::Epoch);
    let whole = smaller.is_empty() && !again;
    let read = counts.enqueued + counts.in_progress + counts.dropped;
    assert_eq!(counts.started, read, "{name}: {counts:?}");
    assert!(fails || (counts.dropped, counts.cleared) == (0, 0), "{name}: {counts:?}");
    let inside = counts.dequeued + counts.overwritten + counts.left + counts.cleared;
    assert_eq!(copy.queue.initial + counts.enqueued, inside, "{name}: {counts:?}");
    assert_eq!(copy.queue.initial, job.prefill * u64::from(job.nodes), "{name}");
    assert!(copy.queue.level <= copy.queue.capacity, "{name}");
    if job.queue == QueueKind::Bounded {
        assert_eq!((counts.left, counts.overwritten), (copy.queue.level, 0), "{name}");
        let mut fresh = copy.steps.iter().map(|step| step.fresh);
        assert!(!whole || fresh.all(|n| n % job.batch == 0), "{name}: fresh as a whole");
    }
    let workers: u64 = job.loader.stages.iter().map(|stage| u64::from(stage.workers)).sum();
    let items: u64 = job.loader.stages.iter().map(|s| s.buffer.saturating_mul(job.batch)).sum();
    let most = (workers * job.batch + items) * u64::from(job.nodes);
    assert!(counts.in_progress <= most, "{name}: {} in progress", counts.in_progress);
    let fresh: u64 = copy.steps.iter().map(|step| step.fresh).sum();
    assert!(fresh <= counts.dequeued, "{name}: {fresh} fresh");
    let open = window(job) * models(job) * job.batch;
    let kept = fails || counts.dequeued - fresh <= open;
    assert!(kept, "{name}: {} of {fresh}", counts.dequeued);
    // A tuning policy begins with one learner on each GPU.
    let fewest = if job.learners.tuning.is_some() { u64::from(job.ranks()) } else { models(job) };
    let least = smaller.first().unwrap_or(&job.batch) * fewest;
    let sizes = least..=job.batch * models(job);
    assert!(copy.steps.iter().all(|step| sizes.contains(&step.samples)), "{name}");
    let epochs = fresh as f64 / scenario.datasets[job.dataset].samples as f64;
    match scenario.run.stop {
        Stop::Steps(steps) => assert_eq!(copy.steps.len() as u64, steps, "{name}"),
        Stop::Epochs(asked) => assert!(epochs >= asked, "{name}: {epochs} epochs of {asked}"),
        Stop::Duration(seconds) => {
            assert!(copy.steps.iter().all(|step| step.end <= seconds), "{name}");
        }
        Stop::Known { .. } => assert!(!copy.steps.is_empty(), "{name}"),
    }
    let predictable = job.queue == QueueKind::Bounded && job.learners.tuning.is_none();
    if let (BatchInterval::Every(k), true) = (job.batch_interval, predictable) {
        let batches = ((copy.steps.len() as f64 - 1.0).max(0.0) / k).floor() as u64 + 1;
        let expected = batches * job.batch * models(job);
        if window(job) == 1 && k == 1.0 && !again {
            assert!(copy.steps.iter().all(|step| step.fresh == step.samples), "{name}");
        }
        if window(job) == 1 && whole && !copy.steps.is_empty() {
            assert_eq!(fresh, expected, "{name}");
        } else {
            assert!(fresh <= expected + open, "{name}: {fresh} fresh of {expected}");
        }
        let read = counts.started + copy.queue.initial;
        assert!(read >= fresh, "{name}");
        // In a run of a number of steps, loaders do not know the last sample; after a failure, they read samples again.
        if matches!(scenario.run.stop, Stop::Epochs(_)) && !copy.steps.is_empty() && !fails {
            assert!(read <= expected.max(copy.queue.initial), "{name}: reads more than it needs");
        }
    }
}

pub(super) fn audit_queue(name: &str, job: &Job, copy: &JobOutcome) {
    let mut before = Default::default();
    let nodes = f64::from(job.nodes);
    for (index, step) in copy.steps.iter().enumerate() {
        let now = step.queue;
        let elapsed = step.end - copy.start;
        let slack = 1e-9 * (1.0 + elapsed);
        assert!(now.enqueued >= before, "{name}: step {index}");
        before = now.enqueued;
        let workers = copy.queue.workers as f64;
        assert!(now.blocked_seconds <= workers * elapsed + slack, "{name}: step {index}");
        assert!(now.empty_seconds <= elapsed + slack, "{name}: step {index}");
        assert!(now.level_seconds <= copy.queue.capacity as f64 * elapsed * (1.0 + 1e-9), "{name}");
        if job.queue == QueueKind::Circular {
            continue;
        }
        // Little's law: exact when no sample is inside, and otherwise short by the samples inside.
        let inside = copy.queue.initial + now.enqueued - now.dequeued;
        let short = now.level_seconds - now.residence_seconds;
        let rounding = 1e-12 * nodes * (1.0 + now.level_seconds);
        assert!(short >= -rounding, "{name}: step {index}: {short}");
        assert!(short <= inside as f64 * elapsed + rounding, "{name}: step {index}: {short}");
    }
    let (mut at, end) = (copy.start, f64::MAX);
    for exhaustion in &copy.queue.exhaustions {
        assert!(exhaustion.start >= at && exhaustion.duration >= 0.0, "{name}: {exhaustion:?}");
        assert!(exhaustion.start < end, "{name}");
        at = exhaustion.start;
    }
    if !copy.series.bins.is_empty() {
        let steps: u64 = copy.series.bins.iter().map(|bin| bin.steps).sum();
        assert_eq!(steps, copy.steps.len() as u64, "{name}: steps of the series");
        let seconds: f64 = copy.series.bins.iter().map(|bin| bin.step_seconds).sum();
        let elapsed = copy.steps.last().map_or(0.0, |step| step.end - copy.start);
        assert!((seconds - elapsed).abs() <= 1e-9 * (1.0 + elapsed), "{name}: {seconds}");
    }
    if copy.copy == 0 {
        let enqueued: u64 = copy.series.bins.iter().map(|bin| bin.enqueued).sum();
        assert_eq!(enqueued, copy.samples.enqueued, "{name}: enqueued in the series");
    }
}
