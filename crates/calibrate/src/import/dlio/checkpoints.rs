//! Workloads that only write checkpoints, as MLPerf Storage's of Llama 3.
//!
//! Sizes are those of `dlio_benchmark/checkpointing/base_checkpointing.py`: a transformer's parameters in the model's type and
//! three values each in the optimizer's; other models have the size that the file names, and their optimization groups three
//! times.

use super::keys::Keys;
use super::yaml::DlioError;
use serde_json::Value;

/// What a workload of checkpoints writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Checkpoints {
    /// Number of checkpoints.
    pub number: u64,
    /// Bytes of a checkpoint; of each rank's if `every_rank_all` [B].
    pub bytes: f64,
    /// Whether each rank writes; otherwise only rank 0 does.
    pub each_rank: bool,
    /// Whether each rank writes all `bytes`; otherwise the ranks share them.
    pub every_rank_all: bool,
    /// Time between checkpoints [s].
    pub between: f64,
}

pub(super) fn read(get: &Keys<'_>) -> Result<Checkpoints, DlioError> {
    let transformer = parameters(get)?;
    let all_ranks = get.word("checkpoint.type", "rank_zero")? == "all_ranks";
    let bytes = match transformer {
        Some(parameters) => {
            let of_model = datatype(get, "model.model_datatype", "fp16")?;
            parameters * (of_model + 3.0 * datatype(get, "model.optimizer_datatype", "fp32")?)
        }
        None => named_size(get)?,
    };
    Ok(Checkpoints {
        number: number(get)?,
        bytes,
        each_rank: transformer.is_some() || all_ranks,
        every_rank_all: transformer.is_none() && all_ranks,
        // -1 stands for no time.
        between: match get.at("checkpoint.time_between_checkpoints").and_then(Value::as_f64) {
            Some(time) if time < 0.0 => 0.0,
            _ => get.number("checkpoint.time_between_checkpoints", 0.0)?,
        },
    })
}

/// Returns how many checkpoints are written; -1 is DLIO's default.
fn number(get: &Keys<'_>) -> Result<u64, DlioError> {
    const KEY: &str = "checkpoint.num_checkpoints_write";
    match get.at(KEY) {
        Some(value) if value.as_u64() == Some(0) => {
            let remedy = "this workload only reads checkpoints, which forebay does not import";
            Err(Keys::wrong(KEY, value, remedy))
        }
        _ => Ok(get.steps(KEY)?.unwrap_or(1)),
    }
}

/// Returns the number of parameters of a transformer (`get_num_parameters`); `None` if the file does not describe its layers.
fn parameters(get: &Keys<'_>) -> Result<Option<f64>, DlioError> {
    let Some(layers) = get.steps("model.num_layers")? else { return Ok(None) };
    if sum(get, "model.layer_parameters")? > 0.0 {
        return Ok(None);
    }
    let of = |key: &str, default| {
        get.whole_or(&format!("model.transformer.{key}"), default, 1).map(|value| value as f64)
    };
    let (vocabulary, hidden) = (of("vocab_size", 32_000)?, of("hidden_size", 2048)?);
    let head = (hidden / of("num_attention_heads", 32)?).floor();
    let kv = head * of("num_kv_heads", 8)?;
    let attention = hidden * (hidden + 2.0 * kv) + hidden * hidden;
    let feed_forward = 3.0 * hidden * of("ffn_hidden_size", 8192)?;
    let layer = attention + feed_forward + 2.0 * hidden;
    Ok(Some(2.0 * vocabulary * hidden + layers as f64 * layer + hidden))
}

/// Returns the bytes of a value of a type.
fn datatype(get: &Keys<'_>, key: &str, default: &str) -> Result<f64, DlioError> {
    let word = get.word(key, default)?;
    let known = [("8", 1.0), ("16", 2.0), ("32", 4.0), ("64", 8.0)];
    let found = known.iter().find(|(bits, _)| word.ends_with(bits)).map(|(_, bytes)| *bytes);
    found.ok_or_else(|| DlioError::Value {
        key: key.to_owned(),
        value: word,
        remedy: "write a type with its bits, such as fp16".to_owned(),
    })
}

/// Returns the size that the file names, at the places where versions of DLIO had it [B].
fn named_size(get: &Keys<'_>) -> Result<f64, DlioError> {
    let mut size = 10_240.0;
    for key in ["checkpoint.model_size", "model.model_size", "model.model_size_bytes"] {
        size = get.number(key, size)?;
    }
    let layers = get.steps("model.num_layers")?.unwrap_or(0) as f64;
    let groups =
        sum(get, "model.optimization_groups")? + sum(get, "checkpoint.optimization_groups")?;
    Ok(size + layers * sum(get, "model.layer_parameters")? + 3.0 * groups)
}

fn sum(get: &Keys<'_>, key: &str) -> Result<f64, DlioError> {
    let Some(value) = get.at(key) else { return Ok(0.0) };
    let one = |of: &Value| of.as_f64().filter(|value| *value >= 0.0 && value.is_finite());
    let all: Option<Vec<f64>> = value.as_array().and_then(|list| list.iter().map(one).collect());
    all.map(|all| all.iter().sum()).ok_or_else(|| DlioError::Value {
        key: key.to_owned(),
        value: value.to_string(),
        remedy: "write a list of numbers of at least 0".to_owned(),
    })
}
