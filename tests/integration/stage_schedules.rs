//! Interleaved 1F1B and ZB-H1: published bubbles, bytes and memory, and combinations with other ways to split a
//! model.

use super::list_schedule::{Link, interleaved_orders, list_schedule, zero_bubble_orders};
use super::pipeline_schedules::{adds_up, spread, waits};
use super::runs::{near, run, simulate, step, written};
use forebay::report::{Cause, JobOutcome, ParallelReport, summarise};
use forebay::scenario::ScenarioFile;
use forebay::sim::Options;

/// Links between the GPUs of a node with ports of 10 GB/s.
const SWITCH: &str = "intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"50 us\" }";

/// Returns a batch of 1 s on one GPU, a third of it forward, on these stages with this schedule.
fn on(stages: &str, schedule: &str, micro: u32, rest: &str) -> String {
    let pipeline = format!(
        "model.step = {{ per_sample = \"{} s\" }}\nparallel.pipeline = {{ {stages}, \
         schedule = {schedule}, micro_batches = {micro} }}\n{rest}",
        1.0 / 240.0
    );
    spread(SWITCH, &pipeline)
}

fn interleaved(chunks: u32) -> String {
    format!("\"interleaved-1f1b\", chunks = {chunks}")
}

fn zero_bubble(weights: f64) -> String {
    format!("\"zb-h1\", weight_gradients = {weights}")
}

fn exact(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{what}: {found}, not {expected}");
}

fn of(text: &str) -> JobOutcome {
    let job = run(text);
    adds_up(&job);
    job
}

fn told(text: &str) -> ParallelReport {
    let scenario = written(text, &[]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    report.jobs[0].parallel.expect("spread over GPUs")
}

fn on_nodes(nodes: u32, text: &str) -> String {
    text.replace("batch = 240", &format!("nodes = {nodes}\nbatch = 240"))
}

#[test]
fn interleaving_v_chunks_per_stage_divides_pipeline_bubbles_by_v() {
    // System: p equal stages of v chunks, m micro-batches, no other delays. Expectation (Narayanan et al.,
    // 2021, section 2.2): a step takes (m v + p − 1) passes of a micro-batch on a chunk, of which p − 1 are
    // bubbles.
    for (stages, chunks, micro) in
        [(2, 2, 2), (2, 3, 8), (3, 2, 6), (4, 2, 4), (4, 2, 12), (4, 4, 8), (8, 3, 8), (8, 4, 24)]
    {
        let text = on(&format!("stages = {stages}"), &interleaved(chunks), micro, "");
        let job = of(&text);
        let (p, v, m) = (f64::from(stages), f64::from(chunks), f64::from(micro));
        let what = format!("{stages} stages, {chunks} chunks, {micro} micro-batches");
        exact(step(&job), (m * v + p - 1.0) / (m * v * p), &what);
        let bubble = (p - 1.0) / (v * m + p - 1.0);
        exact(waits(&job, Cause::Bubble), bubble, &what);
        exact(told(&text).bubble, bubble, &what);
    }
}

#[test]
fn zb_h1_fills_bubbles_with_weight_gradients() {
    // System: p equal stages; passes TF (forward), TB (input gradients) and TW (weight gradients) of a
    // micro-batch on a stage, TW the shortest. Expectation (Qi et al., 2024, table 2): bubbles of (p − 1) (TF +
    // TB − TW), a third of those of 1F1B where all passes are equal.
    for weights in [0.5, 0.4, 0.1] {
        for (stages, micro) in [(1, 4), (2, 2), (2, 6), (4, 4), (4, 10), (8, 8), (8, 24)] {
            let text = on(&format!("stages = {stages}"), &zero_bubble(weights), micro, "");
            let job = of(&text);
            let (p, m) = (f64::from(stages), f64::from(micro));
            let (forward, backward) = (1.0 / 3.0, 2.0 / 3.0);
            let idle = (p - 1.0) * (forward + backward * (1.0 - 2.0 * weights));
            let what = format!("{stages} stages, {micro} micro-batches, {weights}");
            exact(step(&job), (m + idle) / (m * p), &what);
            assert!((waits(&job, Cause::Bubble) - idle / (m + idle)).abs() < 1e-9, "{what}");
            assert!((told(&text).bubble - idle / (m + idle)).abs() < 1e-9, "{what}");
        }
    }
}

#[test]
fn reported_zb_h1_bubbles_match_runs_with_few_micro_batches_or_long_weight_gradients() {
    // System: fewer micro-batches than stages, or weight gradients that take longer than the other passes.
    // Expectation: the bubbles in the report are those of a run.
    for (stages, micro, weights) in
        [(4, 1, 0.5), (4, 2, 0.4), (8, 5, 0.5), (4, 8, 0.7), (4, 2, 0.8)]
    {
        let text = on(&format!("stages = {stages}"), &zero_bubble(weights), micro, "");
        let what = format!("{stages} stages, {micro} micro-batches, {weights}");
        exact(waits(&of(&text), Cause::Bubble), told(&text).bubble, &what);
    }
}

#[test]
fn unequal_stages_take_the_time_of_a_list_schedule() {
    // System: stages of different shares, with and without a latency between them. Expectation: each pass
    // begins when its stage is free and its inputs have arrived.
    let slow = SWITCH.replace("50 us", "3 ms");
    for shares in [vec![0.5, 0.5], vec![0.4, 0.1, 0.3, 0.2], vec![0.1, 0.2, 0.7]] {
        for micro in [12, 24] {
            for sends in [false, true] {
                let written = format!(
                    "shares = {shares:?}{}",
                    if sends { ", activations = \"1 B\"" } else { "" }
                );
                let link = Link { bytes: 0.0, latency: if sends { 3e-3 } else { 0.0 } };
                let stages = shares.len();
                let m = f64::from(micro);
                for chunks in [2, 3] {
                    let text = on(&written, &interleaved(chunks), micro, "").replace(SWITCH, &slow);
                    let v = chunks as usize;
                    let orders = interleaved_orders(shares.len(), v, micro as usize);
                    let long = |pass, place: usize| {
                        let part = if pass == 'F' { 1.0 / 3.0 } else { 2.0 / 3.0 };
                        part * shares[place % shares.len()] / m / f64::from(chunks)
                    };
                    let place = |stage, chunk| chunk * stages + stage;
                    let expected = list_schedule(&orders, place, long, link);
                    exact(step(&of(&text)), expected, &format!("{written}, {chunks} chunks"));
                }
                for weights in [0.5, 0.3] {
                    let text =
                        on(&written, &zero_bubble(weights), micro, "").replace(SWITCH, &slow);
                    let orders = zero_bubble_orders(shares.len(), micro as usize);
                    let long = |pass, place: usize| {
                        let part = match pass {
                            'F' => 1.0 / 3.0,
                            'B' => 2.0 / 3.0 * (1.0 - weights),
                            _ => 2.0 / 3.0 * weights,
                        };
                        part * shares[place] / m
                    };
                    let expected = list_schedule(&orders, |stage, _| stage, long, link);
                    exact(step(&of(&text)), expected, &format!("{written}, {weights}"));
                }
            }
        }
    }
}

#[test]
fn activation_bytes_grow_with_the_number_of_borders_between_model_chunks() {
    // System: 80 MB per batch between chunks. Expectation: p v − 1 borders in both directions, divided over p
    // GPUs: about v times as many bytes as without chunks. With two nodes of one stage each, all of them cross
    // both NICs, including those from the last stage to the first.
    for (stages, chunks) in [(2, 2), (4, 2), (4, 4)] {
        let text =
            on(&format!("stages = {stages}, activations = \"80 MB\""), &interleaved(chunks), 8, "");
        let borders = f64::from(stages * chunks - 1);
        let sent = told(&text).activation_bytes.expect("known");
        exact(sent, 2.0 * borders * 80e6 / f64::from(stages), &format!("{stages} {chunks}"));
    }
    let stages = "stages = 2, stages_per_node = 1, activations = \"80 MB\"";
    let scenario = written(&on_nodes(2, &on(stages, &interleaved(2), 8, "")), &[]);
    let outcome = simulate(&scenario);
    let nic = outcome.resources.iter().find(|of| of.name == "node.nic").expect("a NIC");
    // The first node sends over two borders forward and one backward, the second over one forward and two
    // backward.
    near(nic.utilisation * step(&outcome.jobs[0]), 3.0 * 80e6 / 10e9, "NIC");
    let one = told(&on("stages = 4, activations = \"80 MB\"", &zero_bubble(0.5), 8, ""));
    exact(one.activation_bytes.expect("known"), 2.0 * 3.0 * 80e6 / 4.0, "zb-h1 sends as 1f1b");
}

#[test]
fn slow_links_outweigh_the_gain_of_interleaving() {
    // System: transfers of activations between nodes that take as long as passes. Expectation: chunks help only
    // on fast links.
    let time = |schedule: &str, nic: &str| {
        let stages = "stages = 4, stages_per_node = 1, activations = \"1 GB\"";
        let text = on_nodes(4, &on(stages, schedule, 8, ""));
        step(&of(&text.replace("nic = \"10 GB/s\"", &format!("nic = \"{nic}\""))))
    };
    assert!(time(&interleaved(4), "1 TB/s") < time("\"1f1b\"", "1 TB/s"));
    assert!(time(&interleaved(4), "2 GB/s") > time("\"1f1b\"", "2 GB/s"));
}

#[test]
fn activation_memory_of_pipeline_stages_matches_published_formulas() {
    // System: four stages and eight micro-batches of a model with equal layers. Expectation: relative to the
    // first stage of 1F1B, interleaved stages hold (2 (p − i − 1) + (v − 1) p + 1) ÷ (p v) (Korthikanti et al.,
    // 2022), and all stages of ZB-H1 as much as the first of 1F1B.
    let held = |schedule: &str| -> Vec<f64> {
        let memory = "model.memory = { parameters = \"10 MB\", activations = \"10 MB\" }";
        let text = on("stages = 4", schedule, 8, memory);
        written(&text, &[]).jobs[0].footprints.iter().map(|of| of.activations).collect()
    };
    let first = held("\"1f1b\"")[0];
    let of = |schedule: &str| -> Vec<f64> { held(schedule).iter().map(|of| of / first).collect() };
    assert_eq!(of(&interleaved(2)), [11.0 / 8.0, 9.0 / 8.0, 7.0 / 8.0, 5.0 / 8.0]);
    assert_eq!(of(&zero_bubble(0.5)), [1.0; 4]);
    // Each layer of a model of the catalogue belongs to a stage.
    let parameters = |schedule: &str| {
        let text = on("stages = 4", schedule, 8, "model.catalogue = \"gpt2\"");
        let held = written(&text, &[]).jobs.remove(0).footprints;
        held.iter().map(|of| of.parameters).sum::<f64>()
    };
    assert_eq!(parameters(&interleaved(3)), parameters("\"1f1b\""));
}

#[test]
fn gradients_of_a_chunk_are_reduced_after_its_last_backward_pass() {
    // System: two stages on each of two nodes, two micro-batches, 1 GB of gradients over NICs of 10 GB/s and 10
    // µs. Expectation: with two chunks only the first chunk's quarter, which is ready last, is exposed: 2 × (10
    // µs + 12.5 ms). With ZB-H1 both stages' weight gradients end at once, and their halves share the NIC: 2 ×
    // (10 µs + 50 ms).
    let sync = "sync.allreduce = { gradients = \"1 GB\", algorithm = \"ring\" }";
    let time = |schedule: &str| step(&of(&on_nodes(2, &on("stages = 2", schedule, 2, sync))));
    exact(time(&interleaved(2)), 5.0 / 8.0 + 2.0 * (10e-6 + 0.0125), "interleaved");
    exact(time(&zero_bubble(0.5)), 7.0 / 12.0 + 2.0 * (10e-6 + 0.05), "zb-h1");
}

#[test]
fn zero_optimizer_bytes_in_interleaved_and_zb_h1_schedules_match_publication() {
    // System: four nodes, each a model copy of two stages and two micro-batches; 1 GB of gradients over rings
    // of NICs. Expectation (Rajbhandari et al., sections 5 and 7), with either schedule: a reduce-scatter of
    // gradients once a step at ZeRO stage 1 and for each micro-batch from stage 2 on; parameters gathered once
    // a step, at stage 3 for forward and for backward of each micro-batch, but not for weight gradients.
    let sync = "sync.allreduce = { gradients = \"1 GB\", algorithm = \"ring\" }";
    for schedule in [interleaved(2), zero_bubble(0.5)] {
        let mut before = 0.0;
        for (stage, halves) in [(1, 2.0), (2, 3.0), (3, 6.0)] {
            let rest = format!("{sync}\nparallel.zero.stage = {stage}");
            let text = on_nodes(4, &on("stages = 2", &schedule, 2, &rest));
            let what = format!("{schedule}, ZeRO {stage}");
            exact(told(&text).gradient_bytes.expect("known"), halves * 0.375e9, &what);
            let time = step(&of(&text));
            assert!(time > before - 1e-9, "{what}: {time} s");
            before = time;
        }
    }
}

#[test]
fn tensor_allreduce_bytes_do_not_depend_on_the_schedule() {
    // System: four stages, whose layers are split over two ranks; eight allreduces in forward and eight in
    // backward. Expectation: equally many bytes with each schedule, since passes for weight gradients have no
    // allreduce.
    let sums = |schedule: &str| {
        let tensor = "parallel.tensor = { ranks = 2, allreduces = 8, activations = \"1 MB\" }";
        let text = on("stages = 4", schedule, 8, tensor);
        adds_up(&run(&text));
        told(&text).sum_bytes.expect("known")
    };
    let usual = sums("\"1f1b\"");
    exact(usual, 16.0 / 4.0 * 240e6, "1f1b");
    assert_eq!([sums(&interleaved(2)), sums(&zero_bubble(0.5))], [usual; 2]);
}

#[test]
fn swapped_bytes_of_zb_h1_and_interleaved_schedules_match_manual_calculation() {
    // System: one stage, two micro-batches of 12 GB of activations, 8 GB of which do not fit on the GPU; 24
    // GB/s in each direction. Expectation: ZB-H1 needs them for both gradients: six passes of a sixth of a
    // second each wait a third of a second for 8 GB.
    let model = "model = { step = { per_sample = \"4166666667 ps\" }, out_of_core = true, \
                 memory = { parameters = \"4 GB\", activations = \"100 MB\" } }";
    let node = |capacity: &str| format!("gpu_memory = \"{capacity}\", pcie = \"24 GB/s\"");
    let with = |stages: u32, micro: u32, schedule: &str, capacity: &str| {
        let stages = format!("stages = {stages}, schedule = {schedule}, micro_batches = {micro}");
        spread(&node(capacity), &format!("{model}\nparallel.pipeline = {{ {stages} }}"))
    };
    let one = with(1, 2, &zero_bubble(0.5), "16 GB");
    near(step(&of(&one)), 2.0, "six swaps");
    near(told(&one).swap_bytes.expect("known"), 2.0 * 3.0 * 8e9, "bytes");
    // Four stages of two chunks hold at most 11, 9, 7 and 5 of 16 activations of 0.375 GB beside 3 GB of
    // states: at 5 GB the first two stages swap 2.125 and 1.375 GB of them, once out and once in.
    let chunks = with(4, 8, &interleaved(2), "5 GB");
    let (first, second) = (2.125 / 11.0, 1.375 / 9.0);
    let third = 0.625 / 7.0;
    let all = 2.0 * 16.0 * (first + second + third) * 1e9;
    near(told(&chunks).swap_bytes.expect("known"), all / 4.0, "bytes of chunks");
    adds_up(&run(&chunks));
}

#[test]
fn timelines_name_the_passes_of_each_schedule() {
    let shown = |schedule: &str| {
        let options = Options { trace: true, ..Options::default() };
        let outcome =
            forebay::sim::run(&written(&on("stages = 2", schedule, 4, ""), &[]), 0, &options);
        format!("{:?}", outcome.trace.expect("it was asked for"))
    };
    let (zero, whole) = (shown(&zero_bubble(0.5)), shown(&interleaved(2)));
    for name in ["forward", "input gradients", "weight gradients", "bubble"] {
        assert!(zero.contains(&format!("\"{name}\"")), "{name}");
    }
    assert!(!zero.contains("\"backward\"") && whole.contains("\"backward\""));
}

#[test]
fn invalid_schedule_settings_are_refused_and_ineffective_settings_reported() {
    let refused = |text: &str| {
        let file = ScenarioFile::parse("x.toml", text.to_owned()).and_then(|of| of.resolve(&[]));
        file.map(|_| ()).expect_err(text).to_string()
    };
    for (text, what) in [
        (on("stages = 4", "\"interleaved-1f1b\"", 8, ""), "write `chunks = 2`"),
        (on("stages = 4", &interleaved(2), 6, ""), "for 4 stages, not 6"),
        (
            on("stages = 4", &interleaved(2), 6, ""),
            "`micro_batches` that are a multiple of the stages",
        ),
        (on("stages = 1", &interleaved(2), 8, ""), "write at least 2 `stages`"),
        (on("stages = 4", &interleaved(1), 8, ""), "from 2 to 100"),
        (on("stages = 4", &zero_bubble(1.5), 8, ""), "weight_gradients"),
    ] {
        let found = refused(&text);
        assert!(found.contains(what), "{what}: {found}");
    }
    for (schedule, key) in [
        ("\"1f1b\", chunks = 2", "chunks"),
        ("\"zb-h1\", chunks = 2", "chunks"),
        ("\"gpipe\", weight_gradients = 0.5", "weight_gradients"),
        ("\"interleaved-1f1b\", chunks = 2, weight_gradients = 0.5", "weight_gradients"),
    ] {
        let remarks = written(&on("stages = 4", schedule, 8, ""), &[]).remarks.join("\n");
        assert!(remarks.contains(&format!("{key}` has no effect: only")), "{schedule}: {remarks}");
    }
    let page = |schedule: &str| {
        let scenario = written(&on("stages = 4", schedule, 8, ""), &[]);
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        forebay::report::text::render(&report, 200, false)
    };
    let found = page(&interleaved(2));
    assert!(
        found.contains("4 stages, 2 chunks each (interleaved-1f1b, 8 micro-batches)"),
        "{found}"
    );
    assert!(found.contains("bubbles would be 15.8 %"), "{found}");
    assert!(page(&zero_bubble(0.5)).contains("bubbles would be 11.1 %"));
}
