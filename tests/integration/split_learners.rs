//! Learners of models that are spread over GPUs: several model copies whose stages share GPUs.

use super::pipeline_schedules::{adds_up, gpipe, mean, spread};
use super::runs::{near, run};
use forebay::report::JobOutcome;
use forebay::scenario::ScenarioFile;

/// Returns a job of 12 steps with batches of 0.96 s on four nodes, whose GPUs have ports of 10 GB/s, with the keys `job`.
fn text(job: &str) -> String {
    let node = "scheduling = \"shared\", intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"50 us\" }";
    let step = if job.contains("jitter") { "" } else { "model.step = { per_sample = \"4 ms\" }\n" };
    spread(node, &format!("{step}{job}"))
        .replace("batch = 240", "nodes = 4\nbatch = 240")
        .replace("steps = 4", "steps = 12")
}

fn of(job: &str) -> JobOutcome {
    let job = run(&text(job));
    adds_up(&job);
    job
}

fn learners(number: u32, occupancy: f64) -> String {
    format!("parallel.data.learners = {number}\nmodel.occupancy = {occupancy}\n")
}

#[test]
fn learners_of_one_stage_train_as_learners_without_stages_do() {
    // System: the same job without stages and as one stage, with several learners, alone or with each exchange. Expectation:
    // the same steps.
    let allreduce = |rest: &str| {
        format!("sync.allreduce = {{ gradients = \"800 MB\", algorithm = \"ring\"{rest} }}\n")
    };
    let ways = [
        String::new(),
        allreduce(""),
        allreduce(", tensors = 8, buckets = \"100 MB\""),
        allreduce(", compression.quantised = { ratio = 0.25, compress = \"2 GB/s\", decompress = \"5 GB/s\" }"),
        allreduce(", period = 3"),
        format!("accumulation = 2\n{}", allreduce("")),
        "sync.parameter-server = { parameters = \"800 MB\", servers = 2 }\n".to_owned(),
        "sync.parameter-server = { parameters = \"800 MB\", tensors = 4, buckets = \"200 MB\", consistency = \"asynchronous\" }\n".to_owned(),
        "sync.model-averaging = { parameters = \"800 MB\" }\n".to_owned(),
        "sync.model-averaging = { parameters = \"800 MB\", period = 3 }\n".to_owned(),
        "sync.model-averaging = { parameters = \"800 MB\", period = 3, overlap = false }\n".to_owned(),
    ];
    for way in ways {
        for (number, occupancy) in [(1, 1.0), (2, 0.4), (3, 0.5)] {
            let keys = format!("{way}{}", learners(number, occupancy));
            let bandwidth = |job: &str| {
                let text = text(job)
                    .replace("cores = 8", "cores = 8, gpu_memory_bandwidth = \"100 GB/s\"");
                let job = run(&text);
                adds_up(&job);
                job
            };
            let (whole, stage) = (bandwidth(&keys), bandwidth(&format!("{keys}{}", gpipe(1, 1))));
            for (one, other) in stage.steps.iter().zip(&whole.steps) {
                near(one.end, other.end, &keys);
            }
        }
    }
}

#[test]
fn learners_of_a_pipeline_share_the_gpu_of_each_stage() {
    // System: two stages and one micro-batch, so that each GPU computes for half of the time. Expectation: two learners whose
    // kernels fill half of a GPU take as long as one. Two that fill whole GPUs and begin together share each GPU equally,
    // stay in step, and so take twice as long. If their steps vary, one computes while the other waits for its other stage.
    let alone = of(&gpipe(2, 1));
    near(mean(&alone), 0.96, "one learner");
    let half = of(&format!("{}{}", learners(2, 0.5), gpipe(2, 1)));
    near(mean(&half), 0.96, "two learners of half a GPU each");
    assert_eq!(half.steps[0].samples, 2 * alone.steps[0].samples);
    let whole = of(&format!("{}{}", learners(2, 1.0), gpipe(2, 1)));
    near(mean(&whole), 2.0 * 0.96, "two learners of a GPU each");
    let varies =
        "model = { step = \"960 ms\", occupancy = 1.0, jitter = { gamma = { cv = 0.3 } } }\n";
    let varied = |number: u32| {
        mean(&of(&format!("parallel.data.learners = {number}\n{varies}{}", gpipe(2, 1))))
    };
    assert!(varied(2) < 1.95 * varied(1), "{} {}", varied(2), varied(1));
}

#[test]
fn gpus_of_split_models_take_as_long_for_k_learners_as_their_kernels_fill_them() {
    // System: layers split over two GPUs; k learners whose kernels fill 40 % of each. Expectation: max(1, 0.4 k) times the time
    // of one learner.
    let tensor = "parallel.tensor = { ranks = 2, allreduces = 0, activations = \"0 B\" }\n";
    for k in [1, 2, 3, 4] {
        let job = of(&format!("{}{tensor}", learners(k, 0.4)));
        near(mean(&job), 0.48 * f64::max(1.0, 0.4 * f64::from(k)), &format!("{k} learners"));
    }
}

#[test]
fn learners_of_stages_sum_gradients_on_their_gpu_before_gpus_exchange_them() {
    // System: four model copies of two stages; two learners, 800 MB of gradients. Expectation: as many bytes between GPUs as
    // with one learner, and a sum of 3 × 400 MB in the memory of each GPU.
    let sync =
        "sync.allreduce = { gradients = \"800 MB\", buckets = \"all\", algorithm = \"ring\" }\n";
    let bytes = |number: u32| {
        let job = of(&format!("{sync}{}{}", learners(number, 0.4), gpipe(2, 2)));
        job.parallel.expect("spread").gradients
    };
    near(bytes(2), bytes(1), "bytes between GPUs");
    let with = |bandwidth: &str| {
        let keys = format!("{sync}{}{}", learners(2, 0.4), gpipe(2, 2));
        let text = text(&keys)
            .replace("cores = 8", &format!("cores = 8, gpu_memory_bandwidth = \"{bandwidth}\""));
        mean(&run(&text))
    };
    let sum = 3.0 * 400e6;
    near(
        with("10 GB/s") - with("20 GB/s"),
        sum / 10e9 - sum / 20e9,
        "the first stage's sum is exposed",
    );
}

#[test]
fn learners_of_split_models_average_their_parts() {
    // System: four model copies of two stages, two learners, models averaged every two steps. Expectation: each
    // GPU moves its half of the model for each learner's correction.
    let keys = |parameters: &str| {
        let sync =
            format!("sync.model-averaging = {{ parameters = \"{parameters}\", period = 2 }}\n");
        format!("{sync}{}{}", learners(2, 0.4), gpipe(2, 2))
    };
    let with = |bandwidth: &str| {
        let text = text(&keys("800 MB"))
            .replace("cores = 8", &format!("cores = 8, gpu_memory_bandwidth = \"{bandwidth}\""));
        let job = run(&text);
        adds_up(&job);
        mean(&job)
    };
    let (slow, fast) = (with("10 GB/s"), with("1 TB/s"));
    // Two learners move 5 × 400 MB each in every second step.
    let correction = 2.0 * 5.0 * 400e6 / 10e9 / 2.0;
    assert!(slow - fast > 0.8 * correction && slow - fast < 1.5 * correction, "{}", slow - fast);
    assert!(mean(&of(&keys("8 B"))) < fast + 1e-9);
}

#[test]
fn the_policy_adds_learners_to_split_models_while_they_help() {
    let auto = "parallel.data.learners = { auto = { window = 2, most = 4, threshold = 0.1 } }\n";
    for (occupancy, expected) in [(1.0, 1), (0.5, 2), (0.25, 4)] {
        let tensor = "parallel.tensor = { ranks = 2, allreduces = 0, activations = \"0 B\" }\n";
        let keys = format!("{auto}model.occupancy = {occupancy}\n{tensor}");
        let text = text(&keys).replace("steps = 12", "steps = 24");
        let job = run(&text);
        adds_up(&job);
        assert_eq!(job.learners.expect("learners").per_gpu, expected, "{occupancy}");
    }
}

#[test]
fn learners_of_split_models_restart_after_failures() {
    let recovery = "failures = { at = [\"3500 ms\"], restart = \"1 s\" }\n";
    let sync =
        "sync.allreduce = { gradients = \"800 MB\", buckets = \"all\", algorithm = \"ring\" }\n";
    let keys = format!("{sync}{}{}", learners(2, 0.4), gpipe(2, 2));
    let (plain, failed) = (of(&keys), of(&format!("{keys}{recovery}")));
    let last = |job: &JobOutcome| job.steps.last().expect("steps").end;
    near(last(&failed), 3.5 + 1.0 + last(&plain), "everything is done again");
}

#[test]
fn sharded_models_with_learners_are_refused() {
    let sync = "sync.allreduce = { gradients = \"800 MB\" }\nparallel.zero.stage = 1\n";
    let keys = format!("{sync}{}{}", learners(2, 0.4), gpipe(2, 2));
    let file = ScenarioFile::parse("test.toml", text(&keys)).expect("parsed");
    let problems = file.resolve(&[]).expect_err("refused").to_string();
    assert!(problems.contains("each learner needs a whole model"), "{problems}");
}
