//! Workloads of DLIO beyond training on one host: checkpoints, older and newer keys, folders of results.

use super::runs::{simulate, written};
use super::support::Place;
use forebay::import::dlio::{self, Deployment, Workload};

const TRAINING: &str = "\
model: { name: m }
framework: pytorch
dataset: { data_folder: data/m, format: npz, num_files_train: 4000, record_length_bytes: 1000000 }
reader: { data_loader: pytorch, batch_size: 10, read_threads: 4, file_shuffle: seed }
train: { epochs: 2, computation_time: 0.1 }
";

fn read(text: &str, overrides: &[&str]) -> Workload {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    dlio::read(&[text.to_owned()], &overrides).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn place(accelerators: u32, hosts: u32) -> Deployment {
    let bandwidth = "10 GB/s".to_owned();
    Deployment {
        accelerators,
        hosts,
        cores: 64,
        nic: None,
        bandwidth,
        beside: None,
        start: None,
        source: "a test".to_owned(),
    }
}

/// A transformer of the shape of Llama 3 8B, written as MLPerf Storage writes its checkpoint workloads.
const TRANSFORMER: &str = "\
model:
  name: llama_8b
  type: transformer
  num_layers: 32
  model_datatype: fp16
  optimizer_datatype: fp32
  parallelism: { tensor: 1, pipeline: 1, zero_stage: 3 }
  transformer:
    vocab_size: 128256
    hidden_size: 4096
    ffn_hidden_size: 14336
    num_attention_heads: 32
    num_kv_heads: 8
framework: pytorch
workflow: { generate_data: False, train: False, checkpoint: True }
checkpoint: { checkpoint_folder: c, time_between_checkpoints: 5, num_checkpoints_write: 4, num_checkpoints_read: 4, fsync: True }
";

#[test]
fn a_workload_that_only_writes_checkpoints_becomes_a_job_of_checkpoints() {
    // System: 8.03 G parameters of 14 B each, on 8 ranks of 2 hosts; the storage takes 10 GB/s. Expectation: four checkpoints of
    // 112.4 GB (104.7 GiB, which MLPerf Storage publishes as 105 GB), each of 11.24 s, after steps of 5 s.
    let workload = read(TRANSFORMER, &[]);
    let bytes = 14.0 * 8_030_261_248.0;
    assert_eq!(workload.checkpoints.expect("checkpoints").bytes, bytes);
    let scenario = written(&dlio::scenario(&workload, &place(8, 2)), &[]);
    let outcome = simulate(&scenario).jobs.remove(0);
    let checkpoints = outcome.recovery.as_ref().expect("checkpoints");
    assert_eq!(checkpoints.checkpoints, 4);
    let took = checkpoints.writing_seconds / 4.0;
    assert!((took / (bytes / 10e9) - 1.0).abs() < 0.01, "{took}");
    for key in
        ["checkpoint.fsync", "checkpoint.num_checkpoints_read", "model.parallelism.zero_stage"]
    {
        assert!(workload.left_out.iter().any(|of| of == key), "{:?}", workload.left_out);
    }
    // Other models have the size that the file names, and rank 0 writes it, unless all ranks do.
    let other = "workflow: { train: False, checkpoint: True }\nmodel: { model_size_bytes: 1000, optimization_groups: [10, 20] }\ncheckpoint: {}\n";
    let of = |text: &str| read(text, &[]).checkpoints.expect("checkpoints");
    assert_eq!((of(other).bytes, of(other).each_rank, of(other).number), (1090.0, false, 1));
    let all = other.replace("checkpoint: {}", "checkpoint: { type: all_ranks }");
    assert!(
        of(&all).every_rank_all
            && dlio::scenario(&read(&all, &[]), &place(4, 1)).contains("bytes = \"4360 B\"")
    );
    // Without checkpoints and training it only generates data.
    let error = dlio::read(&["workflow: { train: False }\ndataset: {}\n".to_owned()], &[]);
    assert!(error.expect_err("no workload").to_string().contains("only generates data"));
}

#[test]
fn older_and_newer_keys_of_dlio_mean_the_same() {
    let old = read(&TRAINING.replace("reader:", "data_reader:"), &[]);
    assert_eq!((old.batch, old.read_threads, old.shuffled), (10, 4, true));
    let both = format!("{TRAINING}data_reader: {{ batch_size: 3 }}\n");
    let both = read(&both, &[]);
    assert_eq!(both.batch, 3);
    assert!(both.left_out.iter().any(|key| key == "reader.batch_size"), "{:?}", both.left_out);
    let dims = "record_dims: [1000, 200], record_element_type: float32";
    let dims = read(&TRAINING.replace("record_length_bytes: 1000000", dims), &[]);
    assert_eq!((dims.sample_size, dims.sample_size_sd), (800_000.0, 0.0));
    let output = read(TRAINING, &["++workload.output.metric.exclude_start_steps=7"]);
    assert_eq!(output.warm_up, 7);
    assert_eq!(read(TRAINING, &["++workload.train.total_training_steps=-1"]).steps, None);
    let sides = read(TRAINING, &["++workload.dataset.record_length_bytes_stdev=100000"]);
    assert!((sides.sample_size_sd - 100_000.0 / 2.0_f64.sqrt()).abs() < 1e-6);
    let stdev = read(TRAINING, &["++workload.train.computation_time_stdev=0.01"]);
    assert_eq!(stdev.step, dlio::Times::Normal { mean: 0.1, sd: 0.01 });
}

#[test]
fn every_key_that_is_not_used_is_named() {
    let more = "hydra: { job: { chdir: True } }\nworkload:\n";
    let inner: String = TRAINING.lines().map(|line| format!("  {line}\n")).collect();
    let extra = "  storage: { storage_type: s3, storage_options: { endpoint_url: x } }\n  evaluation: { eval_time: 5 }\n";
    let workload = read(&format!("{more}{inner}{extra}"), &["++workload.reader.odirect=True"]);
    let expected = [
        "dataset.data_folder",
        "evaluation.eval_time",
        "hydra.job.chdir",
        "reader.odirect",
        "storage.storage_options.endpoint_url",
        "storage.storage_type",
    ];
    let mut found = workload.left_out.clone();
    found.sort();
    assert_eq!(found, expected);
    let text = dlio::scenario(&workload, &place(1, 1));
    assert!(expected.iter().all(|key| text.contains(key)), "{text}");
    written(&text, &[]);
    let place = Place::new();
    place.write("w.yaml", TRAINING);
    let done = place.forebay(&["import", "dlio", "w.yaml"]).assert().success();
    let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(said.contains("w.yaml: not used: dataset.data_folder"), "{said}");
}

#[test]
fn folders_of_results_and_paths_with_equal_signs_are_read() {
    let place = Place::new();
    std::fs::create_dir(place.path("run=1")).expect("a folder");
    place.write("run=1/config.yaml", TRAINING);
    place.write(
        "overrides.yaml",
        "- workload=m_h100\n- ++workload.reader.batch_size=5\n- ++hydra.run.dir=out\n",
    );
    let import =
        |arguments: &[&str]| place.forebay(&[&["import", "dlio"], arguments].concat()).assert();
    let done = import(&["run=1/config.yaml", "overrides.yaml"]).success();
    let text = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    assert!(text.contains("batch = 5\n"), "{text}");
    let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(said.contains("workload=m_h100"), "{said}");
    // A path with `=` that does not exist is a path still.
    let error = import(&["run=2/config.yaml"]).code(2);
    assert!(String::from_utf8_lossy(&error.get_output().stderr).contains("run=2/config.yaml"));
    let error = import(&["overrides.yaml"]).code(2);
    let error = String::from_utf8_lossy(&error.get_output().stderr).into_owned();
    assert!(error.contains("only overrides of `m_h100`; name the workload's file"), "{error}");
}

#[test]
fn accelerators_that_do_not_divide_by_hosts_are_spread_as_mpi_does() {
    let workload = read(TRAINING, &[]);
    let text = dlio::scenario(&workload, &place(10, 4));
    assert!(text.contains("copies_per_node = [3, 3, 2, 2]") && text.contains("gpus = 3"), "{text}");
    let scenario = written(&text, &[]);
    assert_eq!(scenario.jobs[0].ranks(), 10);
    assert!(dlio::scenario(&workload, &place(8, 4)).contains("copies_per_node = 2\n"));
}
