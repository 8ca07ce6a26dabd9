//! Tests of the order in which batches are requested and handed out.

use super::*;
use forebay_scenario::ScenarioFile;

/// Returns the requests of a loader of this preset, with 10 batches of 16 and a smaller one in an epoch.
fn requests(loader: &str) -> Requests {
    let text = format!(
        "name = \"r\"\n[run]\nepochs = 3\n[cluster]\nnodes = 1\nnode.cores = 4\nnode.gpus = 1\n[storage.s.memory]\n\
         [dataset.d]\nsamples = 170\nsample_size = \"1 kB\"\n[[job]]\nname = \"j\"\n\
         dataset = \"d\"\nstorage = \"s\"\nbatch = 16\nmodel.step = \"1 ms\"\n\
         loader.{loader}\n"
    );
    let file = ScenarioFile::parse("r.toml", text).expect("TOML");
    let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
    let job = &scenario.jobs[0];
    let quota = scenario.goal(job).quota;
    let mut requests = Requests::for_job(job, &scenario.datasets[0], quota).expect("on request");
    requests.follow();
    requests
}

/// Takes batches until `batches` have been taken; returns the first sample and the number of samples of each.
fn take(requests: &mut Requests, batches: u64) -> Vec<(u64, u64)> {
    let (now, mut taken) = (Time(1), Vec::new());
    while requests.taken() < batches {
        requests.want(now);
        while requests.ask(now).is_some() {}
        for worker in 0..requests.workers {
            while let Some(request) = requests.next(worker) {
                taken.push((request.batch, (request.first, request.samples)));
                requests.finish(now, request.batch);
            }
        }
        while requests.hand_out().is_some() {}
        requests.take(now);
    }
    taken.sort_unstable();
    taken.into_iter().map(|(_, of)| of).collect()
}

/// Returns the positions of the samples of these batches.
fn trained(batches: &[(u64, u64)]) -> Intervals {
    let mut all = Intervals::default();
    batches.iter().for_each(|(first, samples)| all.insert(*first..first + samples));
    all
}

/// Returns the first sample, the number of samples and the share of each batch of an epoch that was requested.
fn batches_of(begun: &BegunEpochs, epoch: u64) -> Vec<(u64, u64, usize)> {
    begun.of(epoch).iter().map(|(first, (of, _))| (*first, of.samples, of.share)).collect()
}

#[test]
fn after_training_out_of_order_a_resumed_loader_skips_the_trained_batches() {
    // System: any 5 of the 22 batches of two epochs are taken. Expectation: the other batches come, in their order.
    let mut whole = requests("pytorch = { workers = 3, in_order = false }");
    whole.start(Time(0));
    let all = take(&mut whole, 22);
    for picked in [[0, 2, 3, 7, 10], [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]] {
        let taken: Vec<_> = picked.iter().map(|batch| all[*batch]).collect();
        let mut again = requests("pytorch = { workers = 3, in_order = false }");
        again.resume(5, whole.clone().begun(&trained(&taken)).expect("followed"));
        again.start(Time(0));
        let rest: Vec<_> = all.iter().filter(|of| !taken.contains(of)).copied().collect();
        assert_eq!(take(&mut again, 22)[..17], rest[..17], "{picked:?}");
    }
}

#[test]
fn a_resumed_loader_skips_exactly_the_batches_already_trained_on() {
    // System: loaders that had handed out n batches when their state was saved. Expectation: they go on with exactly the
    // batches behind these, to the end, in the same epoch or the next.
    for loader in [
        "pytorch = { workers = 3 }",
        "pytorch = { workers = 2, persistent_workers = true, drop_last = true }",
        "keras = { workers = 2 }",
    ] {
        let mut whole = requests(loader);
        whole.start(Time(0));
        let total = whole.total;
        let all = take(&mut whole, total);
        assert_eq!(all.len() as u64, total, "{loader}");
        for saved in 0..total {
            let mut again = requests(loader);
            let mut whole = requests(loader);
            whole.start(Time(0));
            let taken = trained(&take(&mut whole, saved)[..saved as usize]);
            again.resume(saved, whole.begun(&taken).expect("followed"));
            again.start(Time(0));
            let rest = take(&mut again, total);
            assert_eq!(rest[..], all[saved as usize..], "{loader}: behind {saved}");
        }
    }
}

#[test]
fn persistent_workers_start_once_after_a_failure() {
    // System: two workers of 1 s each to start; a failure after 3 of 11 batches, or in the second epoch. Expectation: they
    // start in the epoch that is continued, and not in the one after it.
    let loader = "pytorch = { workers = 2, persistent_workers = true, start = \"1 s\" }";
    for saved in [3, 14] {
        let mut again = requests(loader);
        let mut whole = requests(loader);
        whole.start(Time(0));
        let taken = trained(&take(&mut whole, saved)[..saved as usize]);
        again.resume(saved, whole.begun(&taken).expect("followed"));
        again.start(Time(0));
        take(&mut again, saved + 1);
        assert_eq!(again.ready, Time(1) + Span::from_seconds(2.0), "behind {saved}");
        take(&mut again, saved + 12);
        assert_eq!(again.ready, Time(1), "an epoch later than {saved}");
    }
}

#[test]
fn a_resumed_iterable_hands_each_worker_the_batches_of_its_own_that_are_left() {
    // System: 57, 57 and 56 samples of three workers, in batches of 16 and a smaller last one each, of which any 5 of the 12
    // of an epoch are taken, kept in order or not. Expectation: each worker makes its other batches; the next epoch is whole.
    for loader in [
        "pytorch = { workers = 3, iterable = true",
        "pytorch = { workers = 3, in_order = false, iterable = true",
    ] {
        let loader = format!("{loader} }}");
        let mut whole = requests(&loader);
        whole.start(Time(0));
        take(&mut whole, 12);
        let of = whole.begun(&Intervals::default()).expect("followed");
        let all = batches_of(&of, 0);
        let own = |worker| all.iter().filter(|of| of.2 == worker).map(|of| of.1).sum::<u64>();
        assert_eq!([own(0), own(1), own(2)], [57, 57, 56], "{loader}");
        for picked in [[0, 2, 3, 7, 10], [0, 1, 2, 3, 4], [7, 8, 9, 10, 11], [0, 3, 6, 9, 1]] {
            let taken: Vec<_> = picked.iter().map(|batch| (all[*batch].0, all[*batch].1)).collect();
            let mut again = requests(&loader);
            again.resume(5, whole.clone().begun(&trained(&taken)).expect("followed"));
            again.start(Time(0));
            take(&mut again, 24);
            let of = again.begun(&trained(&taken)).expect("followed");
            let found = batches_of(&of, 0);
            assert_eq!(found, all, "{loader}: {picked:?}");
            let next = batches_of(&of, 1);
            assert_eq!(next.iter().map(|of| of.1).sum::<u64>(), 170, "{loader}");
        }
    }
}
