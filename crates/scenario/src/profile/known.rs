//! Parameters of the laws, with their units.

/// A parameter that a fit may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct LawParameter {
    /// Name of the parameter.
    pub(super) name: &'static str,
    /// Unit of the parameter.
    pub(super) unit: &'static str,
    /// Whether every fit of the law must have the parameter.
    pub(super) required: bool,
}

const fn must(name: &'static str, unit: &'static str) -> LawParameter {
    LawParameter { name, unit, required: true }
}

const fn may(name: &'static str, unit: &'static str) -> LawParameter {
    LawParameter { name, unit, required: false }
}

const READ: &[LawParameter] = &[
    must("latency", "s"),
    may("per_stream", "B/s"),
    may("bandwidth", "B/s"),
    may("operations", "1/s"),
    may("overhead", "s"),
    may("cpu_fixed", "core-s"),
    may("cpu_per_byte", "core-s/B"),
    may("latency_spread", "1"),
];
const BURST: &[LawParameter] = &[
    must("bandwidth", "B/s"),
    must("sustained", "B/s"),
    must("bucket", "B"),
    may("refill", "B/s"),
];
const GATE: &[LawParameter] =
    &[must("period", "s"), must("latency", "s"), may("per_stream", "B/s"), may("bandwidth", "B/s")];
const SERVICE: &[LawParameter] = &[must("in_flight", "requests")];
const STORAGE: &[LawParameter] = &[
    may("latency", "s"),
    may("per_stream", "B/s"),
    may("per_client", "B/s"),
    may("bandwidth", "B/s"),
    may("operations", "1/s"),
    may("latency_spread", "1"),
];
const NETWORK: &[LawParameter] =
    &[must("bandwidth", "B/s"), may("latency", "s"), may("nodes", "nodes")];
const BESIDE: &[LawParameter] = &[must("reads", "1"), must("allreduce", "1")];
const DECODE: &[LawParameter] =
    &[must("fixed", "core-s"), must("per_byte", "core-s/B"), must("per_pixel", "core-s")];
const STEP: &[LawParameter] =
    &[must("fixed", "s"), must("per_sample", "s"), may("floor", "s"), may("jitter", "1")];
const QUEUE: &[LawParameter] = &[must("per_item", "core-s")];
const CACHE: &[LawParameter] = &[must("size", "B")];
const LOADER: &[LawParameter] = &[
    may("fixed", "s"),
    may("per_sample", "s"),
    may("per_byte", "s/B"),
    may("per_worker", "s"),
    may("work", "s"),
    may("varying", "s"),
    may("serial", "s"),
    may("share", "1"),
];
const COPY: &[LawParameter] = &[must("latency", "s"), must("bandwidth", "B/s")];
const ADDITION: &[LawParameter] = &[must("fixed", "s"), must("per_sample", "s")];
const MEMORY: &[LawParameter] = &[must("fixed", "B"), must("per_sample", "B")];
const NOISE: &[LawParameter] =
    &[must("run_to_run", "1"), may("trial", "1"), may("trial_length", "s")];

/// Returns the parameters of a kind of fit; none for `cores` and `transport`, whose parameters are numbered.
pub(super) fn of(kind: &str) -> &'static [LawParameter] {
    match kind {
        "read" => READ,
        "burst" => BURST,
        "gate" => GATE,
        "service" => SERVICE,
        "storage" => STORAGE,
        "network" => NETWORK,
        "beside" => BESIDE,
        "decode" => DECODE,
        "step" => STEP,
        "queue" => QUEUE,
        "cache" => CACHE,
        "copy" => COPY,
        "loader" => LOADER,
        "learners" | "averaging" => ADDITION,
        "memory" => MEMORY,
        "noise" => NOISE,
        _ => &[],
    }
}

/// Names and units of the parameters of each range of message sizes of a transport; the range's number follows each
/// name.
pub(super) const RANGE: [(&str, &str); 4] =
    [("alpha_", "s"), ("beta_", "s/B"), ("gamma_", "s/B"), ("from_", "B")];

/// Returns the number of the range that a parameter of a transport belongs to, and the parameter's unit; `None` if
/// the name is unknown.
pub(super) fn of_range(name: &str) -> Option<(usize, &'static str)> {
    RANGE.iter().find_map(|(prefix, unit)| {
        let number = name.strip_prefix(prefix)?;
        let plain = number.starts_with(|c: char| ('1'..='9').contains(&c));
        let number: usize = number.parse().ok().filter(|_| plain)?;
        (number > 1 || *prefix != "from_").then_some((number, *unit))
    })
}

/// Returns the size that the name of a measured time of a transport has, `at_4096` [B].
pub(super) fn measured_size(name: &str) -> Option<u64> {
    let size = name.strip_prefix("at_")?;
    let plain = size == "0" || size.starts_with(|c: char| ('1'..='9').contains(&c));
    size.parse().ok().filter(|_| plain)
}

/// Returns the unit of a parameter; if the name is unknown, returns a hint with the valid names.
pub(super) fn unit(kind: &str, name: &str) -> Result<&'static str, String> {
    if kind == "cores" {
        let threads = name.strip_prefix("speed_").and_then(|n| n.parse::<u32>().ok());
        let told = "name it after the number of threads: speed_2, speed_4".to_owned();
        return threads.filter(|n| *n > 0).map(|_| "1").ok_or(told);
    }
    if kind == "transport" {
        if name == "beyond" {
            return Ok("1");
        }
        if measured_size(name).is_some() {
            return Ok("s");
        }
        let told = "name it after its range of sizes: alpha_1, beta_1, from_2, alpha_2, beta_2; or after a measured \
                    size: at_4096";
        return of_range(name).map(|(_, unit)| unit).ok_or_else(|| told.to_owned());
    }
    let known = of(kind);
    let found = known.iter().find(|known| known.name == name);
    found.map(|known| known.unit).ok_or_else(|| {
        let near = known.iter().min_by_key(|k| strsim::damerau_levenshtein(k.name, name));
        let near = near.filter(|k| strsim::damerau_levenshtein(k.name, name) <= 3);
        let all: Vec<&str> = known.iter().map(|known| known.name).collect();
        let near = near.map(|k| format!("`{}`? ", k.name)).unwrap_or_default();
        let all = all.join(", ");
        format!("{near}it may be one of {all}; `forebay profile fit` makes the profile again from its samples")
    })
}
