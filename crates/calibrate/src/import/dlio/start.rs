//! What the beginning of an epoch takes beside reading: PyTorch starts its workers before the first epoch, TensorFlow makes and shuffles its
//! list of files in each. The constants are medians of official results of MLPerf Storage v1.0 in `calibrate/published/mlperf.toml`.

/// Time to start a worker of PyTorch [s]: by how much the first epoch's first batch comes later than those of the other epochs, in 36 results
/// of U-Net3D. Medians of eleven submitters' results go from -0.09 to 1.3 s.
pub const START_OF_WORKER: f64 = 0.1;

/// Time for each file of the data set to begin an epoch of TensorFlow [s]: first batches of 23 results of CosmoFlow, whose files hold one
/// sample. Medians of six submitters' results go from 0.5 to 1.2 µs.
pub const START_PER_FILE: f64 = 0.73e-6;

/// Time to begin an epoch of ResNet-50 on TensorFlow, whose files are few [s]: first batches of 22 results beyond their bytes.
pub const START_OF_RESNET50: f64 = 0.19;

/// Returns the keys of a `tf-data` loader for the beginning of epochs of the workload `name`, which take `measured` [s], or what official
/// results show.
#[must_use]
pub fn tensorflow_start(name: &str, measured: Option<f64>) -> String {
    if let Some(seconds) = measured {
        return format!("start = \"{} ms\" # in each epoch: from these results\n", milli(seconds));
    }
    let start = if name.to_lowercase().starts_with("resnet50") { START_OF_RESNET50 } else { 0.0 };
    format!(
        "start = \"{} ms\" # in each epoch: from official results\nstart_per_file = \"{} us\" # the list of files: from official results of CosmoFlow\n",
        milli(start),
        1e6 * START_PER_FILE
    )
}

/// Returns the key of a `pytorch` loader for the start of each worker, which takes `measured` [s], or what official results show.
#[must_use]
pub fn pytorch_start(measured: Option<f64>) -> String {
    let (seconds, source) = match measured {
        Some(seconds) => (seconds, "these results"),
        None => (START_OF_WORKER, "official results of U-Net3D"),
    };
    format!(
        "start = \"{} ms\" # of each worker, before the first epoch: from {source}\n",
        milli(seconds)
    )
}

/// Returns a time in whole tenths of milliseconds.
fn milli(seconds: f64) -> f64 {
    (1e4 * seconds).round() / 10.0
}
