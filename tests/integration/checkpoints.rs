//! Checkpoints of jobs that do not fail: their size, their time, and who writes them.

use forebay::report::{Cause, summarise};

use super::base::changed;
use super::recovery::{EVERY_100, assert_near, assert_whole, end, fed, job, stalled};
use super::runs::simulate;

#[test]
fn checkpoint_time_is_checkpoint_size_divided_by_bandwidth() {
    // System: 600 steps of 1 s, 500 MB at 100 MB/s after each 100 s. Expectation: 5 checkpoints of 5 s, since
    // the sixth would follow the last step; all of their time is a stall for checkpoints.
    let found = job(&fed(&[EVERY_100]));
    assert_near(end(&found), 625.0, 1e-4);
    assert_near(stalled(&found, Cause::Checkpoint), 25.0, 1e-6);
    let recovery = found.recovery.expect("checkpoints");
    assert_eq!((recovery.checkpoints, recovery.failures), (5, 0));
    assert_near(recovery.written, 2.5e9, 1e-9);
    assert_whole(&found);
    // Checkpoints by steps, with other sizes and storages.
    let of = |settings: &str| end(&job(&fed(&[("job.checkpoint", settings)])));
    let steps = r#"{ steps = 50, bytes = "500 MB", storage = "c" }"#;
    assert_near(of(steps), 600.0 + 11.0 * 5.0, 1e-4);
    assert_near(of(&steps.replace("500 MB", "1 GB")), 600.0 + 11.0 * 10.0, 1e-4);
    assert_near(of(&steps.replace("steps = 50", "interval = \"300 s\"")), 605.0, 1e-4);
    assert!((of(&steps.replace("\"c\"", "\"s\"")) - 600.0).abs() < 0.1, "memory takes no time");
    let paused = steps.replace("steps = 50", "steps = 50, pause = \"2 s\"");
    assert_near(of(&paused), 600.0 + 11.0 * 7.0, 1e-4);
}

#[test]
fn the_size_of_a_checkpoint_follows_from_a_model_of_the_catalogue() {
    // System: ResNet-50, 25,557,032 parameters of 4 B. Expectation: a checkpoint has one more value for each
    // parameter with momentum, and two more with Adam.
    let of = |optimizer: &str| {
        let model = format!("{{ catalogue = \"resnet50\", step = \"1 s\"{optimizer} }}");
        let changes = [
            ("job.model", model.as_str()),
            ("job.checkpoint", r#"{ steps = 400, storage = "c" }"#),
        ];
        job(&fed(&changes)).recovery.expect("checkpoints")
    };
    let adam = of(", optimizer = \"adam\"");
    assert_near(adam.written, 3.0 * 4.0 * 25_557_032.0, 1e-6);
    let momentum = of("");
    assert_near(momentum.written, 2.0 * 4.0 * 25_557_032.0, 1e-6);
}

#[test]
fn an_asynchronous_checkpoint_costs_only_its_pause() {
    // Expectation: only the pause costs time; where writing takes longer than the interval, training waits for the
    // checkpoint before: 500 MB at 100 MB/s, due every 2 steps, so that 2 steps take 5 s.
    let of = |settings: &str| job(&fed(&[("job.checkpoint", settings)]));
    let hidden = r#"{ steps = 50, bytes = "500 MB", storage = "c", asynchronous = true }"#;
    let found = of(hidden);
    assert_near(end(&found), 600.0, 1e-4);
    assert_eq!(found.recovery.expect("checkpoints").checkpoints, 11);
    let paused = of(&hidden.replace("true", "true, pause = \"0.5 s\""));
    assert_near(end(&paused), 600.0 + 11.0 * 0.5, 1e-4);
    assert_near(stalled(&paused, Cause::Checkpoint), 5.5, 1e-6);
    let often = of(&hidden.replace("steps = 50", "steps = 2"));
    assert_near(end(&often), 4.0 + 298.0 * 5.0, 1e-4);
    assert_eq!(often.recovery.expect("checkpoints").postponed, 298);
}

#[test]
fn checkpoint_writes_contend_with_reads_and_are_split_among_writer_nodes() {
    // System: reads of 16 × 100 kB a step at 100 MB/s, which are the bottleneck: 16 ms each; a checkpoint of
    // 160 MB is written at the same time to the same server. Expectation: 1.6 s at full speed; beside as many
    // readers as threads up to five times as long, and the steps slow down as well, so that the bytes of both
    // take their time.
    let changes = [
        ("storage.s.file-server.bandwidth", "\"100 MB/s\""),
        ("storage.s.file-server.latency", "\"0 s\""),
        ("cluster.network.nic", "\"10 GB/s\""),
        ("job.loader.tf-queue.decode", "\"0 s\""),
        ("run.steps", "4000"),
    ];
    let checkpoint = |more: &str| {
        let text = format!("{{ steps = 1000, bytes = \"160 MB\", asynchronous = true{more} }}");
        let more = [("job.checkpoint", text.as_str())];
        job(&changed(&[&changes[..], &more].concat()))
    };
    let (plain, beside) = (job(&changed(&changes)), checkpoint(""));
    let written = beside.recovery.expect("checkpoints");
    assert!(written.checkpoints > 0);
    assert!(written.writing_seconds > 1.5 * 1.6 * written.checkpoints as f64, "{written:?}");
    let bytes = 4000.0 * 1.6e6 + written.written;
    assert!(end(&beside) > end(&plain) * 1.05, "{} {}", end(&beside), end(&plain));
    assert!(end(&beside) * 100e6 >= bytes * 0.999, "no more than the server carries");
    // Four nodes write a part each over NICs that are the bottleneck.
    let nodes = |writers: &str| {
        let text = format!(
            "{{ steps = 300, bytes = \"400 MB\", storage = \"c\", writers = \"{writers}\" }}"
        );
        let changes = [
            ("job.nodes", "4"),
            ("cluster.network.nic", "\"10 MB/s\""),
            ("job.checkpoint", text.as_str()),
        ];
        stalled(&job(&fed(&changes)), Cause::Checkpoint)
    };
    assert_near(nodes("first"), 40.0, 1e-6);
    assert_near(nodes("each"), 10.0, 1e-6);
}

#[test]
fn a_run_that_ends_before_its_first_checkpoint_is_reported() {
    // System: steps of 1 s, 600 of them. Expectation: a warning where the first checkpoint is due after 1,000 s or 700 steps.
    let warned = |every: &str| {
        let settings = format!("{{ {every}, bytes = \"500 MB\", storage = \"c\" }}");
        let scenario = fed(&[("job.checkpoint", &settings)]);
        let warnings = summarise(&scenario, &[simulate(&scenario)], 0.0).warnings;
        warnings.iter().any(|of| of.contains("wrote no checkpoint"))
    };
    assert!(warned("interval = \"1000 s\"") && warned("steps = 700"));
    assert!(!warned("interval = \"100 s\"") && !warned("steps = 500"));
}
