//! Learners that share a GPU: each runs at full speed while the kernels of all do not fill the GPU.

use super::base::{changed, outcome};
use super::runs::{near, simulate, step, written};
use forebay::law::OccupancyLaw;
use forebay::report::{LearnersReport, Report, json, summarise, text};
use forebay::scenario::ScenarioFile;
use forebay::sim;

/// Data in memory, so that learners never stall for data.
const FED: [(&str, &str); 2] =
    [("storage.s", "{ memory = {} }"), ("job.loader.tf-queue.decode", "\"0 s\"")];
const NUMBER: &str = "job.parallel.data.learners";
const OCCUPANCY: &str = "job.model.occupancy";
const BATCH: &str = "job.batch";
const STEP: &str = "job.model.step";
const ROOM: (&str, &str) = ("job.loader.tf-queue.capacity", "\"100000 samples\"");

fn fed<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    FED.iter().chain(&[ROOM]).chain(changes).copied().collect()
}

/// Returns the mean time of a step, in which every learner trains on a batch [s].
fn time(changes: &[(&str, &str)]) -> f64 {
    step(&outcome(&fed(changes)).jobs[0])
}

fn report(changes: &[(&str, &str)]) -> Report {
    let scenario = changed(&fed(changes));
    summarise(&scenario, &[simulate(&scenario)], 0.0)
}

fn learners(changes: &[(&str, &str)]) -> LearnersReport {
    report(changes).jobs.remove(0).learners.expect("learners")
}

fn refused(changes: &[(&str, &str)]) -> String {
    let file = ScenarioFile::parse("x.toml", super::base::base()).expect("TOML");
    let changes: Vec<_> = changes
        .iter()
        .map(|(key, value)| format!("{key}={value}").parse().expect("an override"))
        .collect();
    file.resolve(&changes).map(|_| ()).expect_err("refused").to_string()
}

#[test]
fn throughput_gain_of_several_learners_per_gpu_falls_with_batch_size() {
    // System: k learners, whose kernels fill a GPU for b ÷ (b + 48) of a step, which takes 1 ms alone. Expectation: for
    // that part the learners take turns, so that the gain falls with the batch.
    for k in [1, 2, 4, 8] {
        let mut before = f64::INFINITY;
        for batch in [16, 32, 64, 128] {
            let (number, samples) = (k.to_string(), batch.to_string());
            let half = (OCCUPANCY, "{ half = \"48 samples\" }");
            let found = time(&[(NUMBER, &number), (BATCH, &samples), half]);
            let full = f64::from(batch) / f64::from(batch + 48);
            let slowdown = 1.0 - full + f64::from(k) * full;
            near(found, 1e-3 * slowdown, &format!("{k} learners of {batch}"));
            let gain = f64::from(k) / slowdown;
            near(OccupancyLaw::Saturating { half: 48.0 }.gain(k.into(), batch.into()), gain, "law");
            assert!(gain <= before, "the gain falls");
            before = gain;
        }
    }
    near(time(&[(NUMBER, "3"), (OCCUPANCY, "0.5")]), 1.5e-3, "a constant");
    near(time(&[(NUMBER, "3"), (OCCUPANCY, "1")]), 3e-3, "a GPU that is full");
}

#[test]
fn each_other_learner_adds_the_written_time_to_a_step() {
    // System: k learners with batches of b, steps of 1 ms, to which each other learner adds 80 us and 5 us for each sample; or more
    // than a step takes. Expectation: 1 ms and k - 1 times as much; k ms, since learners on a full GPU take turns.
    let added = (OCCUPANCY, "{ added = { fixed = \"80 us\", per_sample = \"5 us\" } }");
    for (k, number) in [(1.0, "1"), (2.0, "2"), (5.0, "5")] {
        for (b, batch) in [(16.0, "16"), (64.0, "64")] {
            let found = time(&[(NUMBER, number), (BATCH, batch), added]);
            near(found, 1e-3 + (k - 1.0) * (80e-6 + 5e-6 * b), &format!("{number} of {batch}"));
        }
        let full = (OCCUPANCY, "{ added = { fixed = \"3 ms\" } }");
        near(time(&[(NUMBER, number), full]), k * 1e-3, number);
    }
    let free = (OCCUPANCY, "{ added = { fixed = \"0 s\" } }");
    near(time(&[(NUMBER, "3"), free]), 1e-3, "learners that add nothing");
    let said = refused(&[(OCCUPANCY, "{ added = {} }")]);
    assert!(said.contains("nothing says what other learners add to a step"), "{said}");
}

#[test]
fn by_default_learners_on_a_gpu_overlap_only_the_fixed_part_of_step_time() {
    // System: 1.6 ms and 0.1 ms for each sample, batches of 16. Expectation: the fixed part takes as long as alone,
    // the rest k times as long.
    let parts = (STEP, "{ fixed = \"1.6 ms\", per_sample = \"100 us\" }");
    for (k, expected) in [("1", 3.2e-3), ("2", 4.8e-3), ("3", 6.4e-3)] {
        near(time(&[(NUMBER, k), parts]), expected, k);
    }
}

#[test]
fn each_group_of_kernels_has_its_own_occupancy() {
    // System: a step of 1 ms, in which kernels fill a quarter of the GPU for 0.4 of the time, and all of it for
    // the rest. Expectation: with two learners in step, the first part takes as long as alone, the second twice
    // as long.
    let kernels =
        "{ kernels = [{ share = 0.4, occupancy = 0.25 }, { share = 0.6, occupancy = 1 }] }";
    for (k, expected) in [("1", 1e-3), ("2", 1.6e-3), ("8", 0.8e-3 + 4.8e-3)] {
        near(time(&[(NUMBER, k), (OCCUPANCY, kernels)]), expected, k);
    }
    // One learner fills a quarter for 0.4 of the time and all for the rest; eight learners always fill it.
    let one = learners(&[(OCCUPANCY, kernels)]);
    near(one.occupancy.mean.expect("a mean"), 0.7, "mean");
    let at_most = &one.occupancy_cumulative;
    assert_eq!((at_most[4], at_most.len()), (0.0, 21));
    near(at_most[5], 0.4, "a quarter or less");
    near(at_most[19], 0.4, "less than all");
    near(
        learners(&[(NUMBER, "8"), (OCCUPANCY, kernels)]).occupancy.mean.expect("it"),
        1.0,
        "eight",
    );
}

#[test]
fn the_report_states_gpu_occupancy_and_the_throughput_gain_of_learners() {
    let two = report(&[(NUMBER, "2"), (OCCUPANCY, "0.4")]);
    let of = two.jobs[0].learners.clone().expect("learners");
    assert_eq!(of.per_gpu, 2);
    near(of.gain.expect("a gain"), 2.0, "gain");
    near(of.occupancy.mean.expect("it"), 0.8, "occupancy");
    let page = text::render(&two, 100, false);
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("have 2 learners each and are occupied to 80"), "{page}");
    assert!(page.contains("together they train 2"), "{page}");
    assert!(page.contains("times as fast as one learner that never waits."), "{page}");
    assert!(json::render(&two).contains("\"occupancy_cumulative\""));
    // Without settings of kernels, the report has no learners.
    assert!(report(&[]).jobs[0].learners.is_none());
}

#[test]
fn every_learner_has_batches_of_its_own() {
    // System: 2 nodes × 2 GPUs × 3 learners. Expectation: 12 batches in each step, each sample once.
    let all = [(NUMBER, "3"), (OCCUPANCY, "0.5"), ("job.nodes", "2")];
    let all = [&all[..], &[("job.parallel.data.copies_per_node", "2")]].concat();
    let job = outcome(&fed(&all)).jobs.remove(0);
    assert!(job.steps.iter().all(|step| step.samples == 12 * 16 && step.fresh == 12 * 16));
    let of = job.samples;
    assert_eq!(of.dequeued, 60 * 12 * 16);
    assert_eq!(of.started, of.enqueued + of.in_progress);
    assert_eq!(of.enqueued, of.dequeued + of.left + of.overwritten);
    // An epoch is the data set once, whatever the number of learners.
    let epoch = [&all[..], &[("run.steps", "0"), ("run.epochs", "1")]].concat();
    let text = super::base::base().replace("steps = 60", "epochs = 1.0");
    let changes = fed(&epoch[..4]);
    let job = simulate(&written(&text, &changes)).jobs.remove(0);
    assert_eq!(job.steps.len(), 1000_usize.div_ceil(12 * 16));
}

#[test]
fn starved_learners_take_one_batch_each_per_step() {
    // System: 4 learners, data for one batch every 2 ms. Expectation: a step, in which each learner takes one
    // batch in turn, takes four times as long as with one learner.
    let slow =
        [("storage.s", "{ memory = { bandwidth = \"800 MB/s\" } }"), FED[1], (OCCUPANCY, "0.1")];
    let one = step(&outcome(&slow).jobs[0]);
    let four = step(&outcome(&[&slow[..], &[(NUMBER, "4")]].concat()).jobs[0]);
    near(four, 4.0 * one, "starved");
}

#[test]
fn invalid_or_incompatible_learner_settings_are_refused() {
    let two = (NUMBER, "2");
    let half = (OCCUPANCY, "0.5");
    for (changes, words) in [
        (vec![two], "the key `occupancy` is missing"),
        (vec![two, half, ("job.model.device", "{ cpu = {} }")], "the steps run on cores"),
        (vec![(NUMBER, "0"), half], "out of range"),
        (vec![(NUMBER, "257"), half], "out of range"),
        (vec![(NUMBER, "\"auto\""), half], "auto"),
        (vec![two, (OCCUPANCY, "1.5")], "more than a whole GPU"),
        (vec![two, (OCCUPANCY, "0")], "out of range"),
        (vec![two, (OCCUPANCY, "{ kernels = [] }")], "0 sorts of kernels"),
        (
            vec![two, (OCCUPANCY, "{ kernels = [{ share = 0.5, occupancy = 1 }] }")],
            "sum to 0.5, not to 1",
        ),
        (vec![two, (OCCUPANCY, "{ kernels = [{ share = 1 }] }")], "the key `occupancy` is missing"),
        (
            vec![(NUMBER, "{ auto = {} }"), half, ("job.batch_interval", "2")],
            "has no batch to repeat",
        ),
    ] {
        let found = refused(&changes);
        assert!(found.contains(words), "{words}: {found}");
    }
    let remarks = changed(&[("job.model.device", "{ cpu = {} }"), half]).remarks;
    assert!(remarks.iter().any(|of| of.contains("model.occupancy")), "{remarks:?}");
}

#[test]
fn too_many_learners_for_gpu_memory_are_refused_with_the_largest_number_that_fits() {
    // System: 400 MB of parameters with gradients and momentum, 1.6 GB of activations in a batch of 16, a
    // workspace of 1 GB: 1.2 + 1.6 GB for each learner. Expectation: two fit into 8 GB, and averaging needs 1.2
    // GB more.
    let memory = "{ parameters = \"400 MB\", activations = \"100 MB\", workspace = \"1 GB\" }";
    let of = |number, gpu| {
        vec![
            (NUMBER, number),
            (OCCUPANCY, "0.4"),
            ("job.model.memory", memory),
            ("cluster.node.gpu_memory", gpu),
        ]
    };
    let held = report(&of("2", "\"8 GB\"")).jobs[0].device_memory.expect("known");
    near(held.total, 1e9 + 2.0 * 2.8e9, "two learners");
    assert!(refused(&of("3", "\"8 GB\"")).contains("`parallel.data.learners = 2`"));
    let average = ("job.sync.model-averaging.parameters", "\"400 MB\"");
    let averaged = [&of("2", "\"8 GB\"")[..], &[average]].concat();
    let held = report(&averaged).jobs[0].device_memory.expect("known");
    near(held.total, 1e9 + 2.0 * 2.8e9 + 1.2e9, "with what averaging keeps");
    let found = refused(&[&of("2", "\"7 GB\"")[..], &[average]].concat());
    assert!(found.contains("`parallel.data.learners = 1`"), "{found}");
    // A tuning policy tries no more learners than fit.
    let auto = report(&of("{ auto = { window = 4 } }", "\"8 GB\"")).jobs.remove(0);
    let tried = auto.learners.expect("learners").tried;
    assert_eq!(tried.iter().map(|of| of.learners).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn the_timeline_has_a_track_for_each_learner_and_is_reproducible() {
    let scenario = changed(&fed(&[
        (NUMBER, "2"),
        (OCCUPANCY, "0.4"),
        ("job.sync.model-averaging.parameters", "\"1 MB\""),
        ("job.parallel.data.copies_per_node", "2"),
        ("cluster.node.intra", "{ bandwidth = \"1 GB/s\" }"),
        ("cluster.node.gpu_memory_bandwidth", "\"100 GB/s\""),
        ("job.model.jitter", "{ lognormal = { cv = 0.3 } }"),
    ]));
    let options = sim::Options { trace: true, ..sim::Options::default() };
    let [one, other] = [0, 0].map(|replication| sim::run(&scenario, replication, &options));
    assert_eq!(one, other);
    let trace = one.trace.expect("a trace");
    for name in ["gpu 0 learner 0", "gpu 0 learner 1", "gpu 1 learner 0", "gpu 1 learner 1"] {
        let track = trace.tracks.iter().position(|(_, found)| found == name).expect(name) as u32;
        let spans = trace.spans.iter().filter(|span| span.track == track);
        let averaging = spans.filter(|span| span.name == "averaging").count();
        assert!(averaging > 50, "{name}: {averaging}");
    }
}

#[test]
fn learners_allocate_buffers_on_demand_and_share_them() {
    // System: four learners, each with 16 samples of 100 kB and 1 MB of activations per sample. Expectation:
    // four buffers of each kind where all train at once, two where data suffice for two learners at a time; a
    // batch that is being loaded has no activations yet.
    let known = ("job.model.memory", "{ parameters = \"1 MB\", activations = \"1 MB\" }");
    let of = |changes: &[(&str, &str)]| {
        let keys = [&[(NUMBER, "4"), (OCCUPANCY, "0.1"), known, FED[1]][..], changes].concat();
        let scenario = changed(&keys);
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        report.jobs[0].learners.clone().expect("learners").buffers
    };
    let all = of(&[FED[0], ROOM]);
    assert_eq!((all.inputs, all.activations), (4, 4));
    near(all.bytes.expect("known"), 4.0 * (1.6e6 + 16e6), "all");
    assert_eq!(all.bytes, all.unshared);
    // A batch every 0.8 ms, steps of 1 ms: at most two are in progress.
    let slow = of(&[("storage.s", "{ memory = { bandwidth = \"2 GB/s\" } }")]);
    assert_eq!((slow.inputs, slow.activations), (2, 2));
    near(slow.bytes.expect("known"), 2.0 * (1.6e6 + 16e6), "two");
    near(slow.unshared.expect("known"), 4.0 * (1.6e6 + 16e6), "if each had its own");
    // Batches that are trained on twice stay in their buffers.
    let twice = of(&[
        ("storage.s", "{ memory = { bandwidth = \"2 GB/s\" } }"),
        ("job.batch_interval", "2"),
    ]);
    assert_eq!(twice.inputs, 4);
    // One learner needs one buffer of each kind; the bytes are unknown without the model's memory.
    let one = learners(&[(OCCUPANCY, "0.1")]).buffers;
    assert_eq!((one.inputs, one.activations, one.bytes), (1, 1, None));
}

#[test]
fn batches_of_learners_share_the_pcie_link_of_their_gpu() {
    // System: batches of 1.6 MB over 1 GB/s, copied by the trainer before a step of 1 ms. Expectation: two
    // learners of a GPU share the link, 3.2 ms; on two GPUs each copies by itself in 1.6 ms.
    let keys = [
        FED[0],
        ("job.loader", "{ pytorch = { workers = 4, prefetch_factor = 8, to_device = true } }"),
        ("dataset.d.samples", "100000"),
        ("cluster.node.pcie", "\"1 GB/s\""),
        (OCCUPANCY, "0.1"),
    ];
    let of = |change: (&str, &str)| {
        let steps = &outcome(&[&keys[..], &[change]].concat()).jobs[0].steps;
        (steps[50].end - steps[10].end) / 40.0
    };
    near(of((NUMBER, "1")), 2.6e-3, "one");
    near(of((NUMBER, "2")), 4.2e-3, "two on a GPU");
    near(of(("job.parallel.data.copies_per_node", "2")), 2.6e-3, "two GPUs");
}

#[test]
fn reports_suggest_more_learners_per_gpu_if_gpus_are_not_fully_occupied() {
    let advice =
        |number| report(&[(NUMBER, number), (OCCUPANCY, "0.3")]).bottleneck.expect("one").text;
    assert!(advice("1").contains("or more learners (now 1): 70"), "{}", advice("1"));
    assert!(!advice("4").contains("more learners"), "{}", advice("4"));
    // No such advice where more learners are refused, or where a policy tunes their number.
    let nodes = ("job.parallel.data.copies_per_node", "2");
    for other in [
        &[nodes, ("job.sync", "{ allreduce = { gradients = \"1 kB\" } }")][..],
        &[("job.parallel.data.learners", "{ auto = { window = 5, threshold = 10 } }")],
    ] {
        let found = report(&[&[(OCCUPANCY, "0.3")], other].concat());
        let of = found.jobs[0].learners.as_ref().expect("kernels").occupancy.mean.expect("some");
        let said = found.bottleneck.expect("one").text;
        assert!(of < 0.9 && !said.contains("learners (now"), "{other:?}: {of}, {said}");
    }
    let remarks = changed(&[("cluster.node.gpu_memory_bandwidth", "\"1 GB/s\"")]).remarks;
    assert!(remarks.iter().any(|of| of.contains("the job neither averages models")), "{remarks:?}");
}

#[test]
fn learner_occupancy_is_taken_from_a_fitted_profile_only_for_the_same_gpu() {
    // System: LeNet-5 with steps of 1 ms, and a profile in which each other learner adds 0.1 ms and 25 us for each sample on this
    // GPU. Expectation: two learners with batches of 16 take half as long again, three twice as long; a fit for another GPU does
    // not apply.
    let base =
        super::base::base().replace("name = \"base\"", "name = \"base\"\nprofile = \"p.toml\"");
    let example =
        std::fs::read_to_string(super::runs::repository("calibrate/profiles/example.toml"));
    let example = example.expect("a shipped profile");
    let place = super::support::Place::new();
    place.write("s.toml", &base);
    let fit = |gpu: &str| {
        let added =
            "fixed = { value = 1e-4, unit = \"s\" }\nper_sample = { value = 25e-6, unit = \"s\" }";
        let table = format!("learners.lenet5.{gpu}");
        format!("[{table}]\nsamples = 40\nresidual = 0.02\n[{table}.parameters]\n{added}\n")
    };
    let gpu = "{ catalogue = \"lenet5\", device = { gpu = {} }, step = \"1 ms\" }";
    let of = |number: &str, fit: &str| {
        place.write("p.toml", &format!("{example}\n{fit}"));
        let file = ScenarioFile::open(&place.path("s.toml"))
            .unwrap_or_else(|problems| panic!("{problems}"));
        let changes = fed(&[("job.model", gpu), (NUMBER, number)]);
        let changes: Vec<_> = changes
            .iter()
            .map(|(key, value)| format!("{key}={value}").parse().expect("an override"))
            .collect();
        file.resolve(&changes).map(|scenario| step(&simulate(&scenario).jobs[0]))
    };
    let own = fit("cuda-0-fp32-graph");
    near(of("2", &own).unwrap_or_else(|problems| panic!("{problems}")), 1.5e-3, "two");
    near(of("3", &own).unwrap_or_else(|problems| panic!("{problems}")), 2e-3, "three");
    let found = of("2", &fit("cuda-1-fp32-graph")).expect_err("refused").to_string();
    assert!(found.contains("the key `occupancy` is missing"), "{found}");
}
