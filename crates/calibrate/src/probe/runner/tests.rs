use super::super::{Cell, Count, Seconds, Share, Trial};
use super::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// A probe with two cells; `cost` of (cell, trial) gives the time of each trial [s].
struct Fake<F> {
    made: Vec<usize>,
    cost: F,
}

impl<F: FnMut(usize, usize) -> Result<f64, ProbeError>> Probe for Fake<F> {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn cells(&self) -> Vec<Cell> {
        (0..2).map(|n| Cell::new(&[], &[("n", f64::from(n))])).collect()
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        assert!(context.directory.is_dir());
        let cell = cell.count("n");
        let before = self.made.iter().filter(|&&made| made == cell).count();
        self.made.push(cell);
        let seconds = (self.cost)(cell, before)?;
        // A trial of exactly two seconds waited for cores longer than any limit allows.
        let waited = if seconds == 2.0 { 1e12 } else { 0.0 };
        Ok(Trial { operations: 1, seconds, threads: 1, waited, ..Trial::default() })
    }
}

/// Rules with two warm-up trials and 6 to 30 trials of each cell.
fn rules() -> Rules {
    Rules {
        length: Seconds(1e-6),
        warm_up: 2,
        at_least: Count(6),
        at_most: Count(30),
        precision: Share(0.05),
    }
}

/// Runs a fake probe for at most `seconds`, with its samples in `directory`; the flag `stop` interrupts it.
/// Returns the summary and the cells of the trials, in order.
fn run<F>(directory: &Path, stop: &AtomicBool, seconds: u64, cost: F) -> (Summary, Vec<usize>)
where
    F: FnMut(usize, usize) -> Result<f64, ProbeError> + 'static,
{
    let (workspace, _) = Workspace::create(directory).unwrap();
    let runner = Runner {
        rules: rules(),
        limits: Limits { others: 1e6, steal: 1e6 },
        cores: 1.0,
        ruler: Ruler::default(),
        seed: 1,
        workspace: &workspace,
        deadline: Instant::now() + Duration::from_secs(seconds),
        stop,
    };
    let mut journal = Journal::open(&directory.join("samples.jsonl")).unwrap();
    let mut probe = Fake { made: vec![], cost };
    let mut summary = Summary::default();
    let deadline = runner.deadline;
    let ended = runner.probe(&mut probe, deadline, &mut journal, &mut summary, &mut |_| {});
    workspace.clear("fake");
    if let Err(Stopped::Probe(error)) = ended {
        summary.failures.push(("fake".into(), error));
    }
    journal.replace(mark_trends(journal.samples().to_vec())).unwrap();
    (summary, probe.made)
}

fn go() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn measurements_end_early_if_precise_and_at_the_trial_limit_if_noisy() {
    let place = tempfile::tempdir().unwrap();
    let cost = |cell, trial| Ok(if cell == 0 { 1.0 } else { [1.0, 2.0][trial % 2] });
    let (summary, made) = run(place.path(), &go(), 60, cost);
    let of = |cell| made.iter().filter(|&&made| made == cell).count();
    assert_eq!((of(0), of(1)), (2 + 6, 2 + 30));
    let ends: Vec<End> = summary.cells.iter().map(|cell| cell.end).collect();
    assert_eq!(ends, [End::Precise, End::MostTrials]);
    assert_eq!((summary.cells[0].median, summary.cells[0].interval), (1.0, Some([1.0, 1.0])));
    assert_eq!(summary.cells[0].excluded, [("warm-up".to_owned(), 2)].into());
}

#[test]
fn trials_of_a_round_come_in_random_order() {
    let place = tempfile::tempdir().unwrap();
    let (_, made) = run(place.path(), &go(), 60, |_, trial| Ok([1.0, 2.0][trial % 2]));
    let rounds: BTreeSet<&[usize]> = made.chunks(2).collect();
    assert_eq!(rounds, BTreeSet::from([&[0, 1][..], &[1, 0][..]]));
}

#[test]
fn trials_of_an_initial_trend_are_excluded_and_replaced_by_more_trials() {
    let place = tempfile::tempdir().unwrap();
    // Times fall by 0.1 s from trial to trial for the first eight trials.
    let cost = |_, trial: usize| Ok(1.0 + 0.1 * 8_usize.saturating_sub(trial) as f64);
    let (summary, _) = run(place.path(), &go(), 60, cost);
    let journal = Journal::open(&place.path().join("samples.jsonl")).unwrap();
    let reasons: BTreeSet<_> = journal.samples().iter().flat_map(|s| s.excluded.clone()).collect();
    assert!(reasons.iter().any(|why| why.starts_with("a trend")), "{reasons:?}");
    assert!(summary.cells.iter().all(|cell| cell.end == End::Precise && cell.median < 1.15));
}

#[test]
fn resumed_measurements_keep_samples_taken_before_the_interruption() {
    let place = tempfile::tempdir().unwrap();
    let stop = go();
    let raise = |_, trial| if trial == 5 { Err(ProbeError::Interrupted) } else { Ok(1.0) };
    let (first, made) = run(place.path(), &stop, 60, raise);
    assert!(matches!(first.failures[..], [(_, ProbeError::Interrupted)]));
    let kept = Journal::open(&place.path().join("samples.jsonl")).unwrap().samples().len();
    assert_eq!(kept, made.len() - 1, "all but the one that was not finished");
    let (second, made) = run(place.path(), &stop, 60, |_, _| Ok(1.0));
    // Each cell needs two new trials to warm up, and as many as are missing of six.
    assert!(made.len() < 2 * (2 + 6), "{}", made.len());
    assert!(second.cells.iter().all(|cell| cell.used == 6 && cell.end == End::Precise));
    let (third, made) = run(place.path(), &stop, 60, |_, _| Ok(1.0));
    assert_eq!((made.len(), third.cells.len()), (0, 2));
}

#[test]
fn a_timeout_or_failure_ends_a_probe_but_keeps_its_samples() {
    let place = tempfile::tempdir().unwrap();
    let (summary, made) = run(place.path(), &go(), 0, |_, _| Ok(1.0));
    assert_eq!((made.len(), summary.cells[0].end), (0, End::Budget));
    let fail =
        |_, trial| if trial == 3 { Err(ProbeError::Machine("broken".into())) } else { Ok(1.0) };
    let (summary, _) = run(place.path(), &go(), 60, fail);
    assert_eq!(summary.failures[0].1.to_string(), "broken");
    assert!(summary.cells.iter().any(|cell| cell.end == End::Stopped));
    assert!(!Journal::open(&place.path().join("samples.jsonl")).unwrap().samples().is_empty());
}

#[test]
fn measurements_end_even_if_every_trial_is_excluded() {
    let place = tempfile::tempdir().unwrap();
    let (summary, made) = run(place.path(), &go(), 60, |_, _| Ok(f64::NAN));
    assert!(made.len() <= 2 * (3 * 30 + 3), "{}", made.len());
    assert!(summary.cells.iter().all(|cell| cell.end == End::Excluded && cell.used == 0));
}

/// System: in every second trial the thread waits for cores. Expectation: all trials count, and samples and summary say which
/// ran beside others.
#[test]
fn trials_beside_others_count_and_are_marked() {
    let place = tempfile::tempdir().unwrap();
    let (summary, made) = run(place.path(), &go(), 60, |_, trial| Ok([1.0, 2.0][trial % 2]));
    assert_eq!(made.len(), 2 * (2 + 30));
    for cell in &summary.cells {
        assert_eq!((cell.used, cell.excluded.len()), (30, 1), "{cell:?}");
        assert_eq!(cell.beside, [("threads waited for cores".to_owned(), 15)].into());
    }
    let journal = Journal::open(&place.path().join("samples.jsonl")).unwrap();
    let marked = journal.samples().iter().filter(|sample| sample.beside.is_some()).count();
    assert_eq!(marked, 32, "warm-up trials are marked too");
}
