//! Published results of input pipelines other than Fletcher's and MLPerf Storage's.

use super::runs::{shipped, simulate, steady};

#[test]
fn makespans_of_the_barrier_scenario_match_published_nopfs_lower_bounds() {
    // R. Boehringer's thesis, tables 5.1 to 5.6: lower bounds of scenarios 2, 3 and 4 [s]. The mean of the
    // largest of four normal variables is 1.02938 standard deviations above their mean; one random table of
    // sizes deviates by 0.01 %, so that six tables are averaged.
    let cases = [
        (1.0, 0.1, 150_000.0, 10.0, 3825.66),
        (2.0, 0.2, 300_000.0, 5.0, 7655.25),
        (3.0, 0.2, 400_000.0, 5.0, 15204.78),
    ];
    for (mean, sd, samples, epochs, published) in cases {
        let size = format!("{{ normal = {{ mean = \"{mean} MB\", sd = \"{sd} MB\" }} }}");
        let (samples, epochs): (f64, f64) = (samples, epochs);
        let [number, passes] = [samples.to_string(), epochs.to_string()];
        let makespan = |seed: u32| {
            let seed = seed.to_string();
            let changes = [
                ("dataset.files.sample_size", size.as_str()),
                ("dataset.files.samples", number.as_str()),
                ("run.epochs", passes.as_str()),
                ("run.seed", seed.as_str()),
            ];
            simulate(&shipped("barrier", &changes)).makespan
        };
        let found = (1..=6).map(makespan).sum::<f64>() / 6.0;
        let expected = samples * epochs / 100.0 * (25.0 * mean + 1.02938 * 5.0 * sd) / 100.0;
        assert!((found / expected - 1.0).abs() < 2e-4, "{mean}: {found} s for {expected} s");
        assert!((found / published - 1.0).abs() < 5e-4, "{mean}: {found} s for {published} s");
    }
}

#[test]
fn one_bandwidth_reproduces_ffcv_read_rates_from_ebs() {
    // libffcv's documentation, p3dn.24xlarge: images per second from EBS and from memory. Sizes are the sizes
    // of its files divided by 1,281,167 images.
    const EBS: &str = "{ local-disk = { bandwidth = \"0.9 GB/s\", latency = \"1 ms\" } }";
    const RAM: &str = "{ memory = {} }";
    let rate = |storage: &str, size: &str, decode: &str| {
        let stage = |name: &str, workers: u32, work: &str| {
            format!(
                "{{ name = \"{name}\", workers = {workers}, per_sample = [{work}], buffer = 4096 }}"
            )
        };
        let decode = format!("{{ decode = {decode} }}");
        let stages = [stage("read", 16, "\"read\""), stage("decode", 96, &decode)].join(", ");
        let stages = format!("{{ stages = [{stages}] }}");
        let changes = [
            ("storage.ebs", storage),
            ("dataset.imagenet.sample_size", size),
            ("job.loader", stages.as_str()),
            ("cluster.node.memory", "\"1 TiB\""),
        ];
        steady(&simulate(&shipped("ffcv", &changes)), 50).fresh
    };
    let (jpeg, raw) = ("\"3.07 ms\"", "\"556 us\"");
    for (storage, size, decode, published, tolerance) in [
        (EBS, "\"480.9 kB\"", raw, 1956.0, 0.1),
        (EBS, "\"132.5 kB\"", raw, 6870.0, 0.1),
        (EBS, "\"51.1 kB\"", jpeg, 16631.0, 0.1),
        (RAM, "\"51.1 kB\"", jpeg, 31278.0, 0.01),
        (RAM, "\"132.5 kB\"", raw, 172_801.0, 0.01),
    ] {
        let found = rate(storage, size, decode);
        let error = found / published - 1.0;
        assert!(error.abs() < tolerance, "{storage} {size}: {found} for {published}");
    }
}
