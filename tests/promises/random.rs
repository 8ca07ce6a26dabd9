//! Scenarios from a seeded generator, as TOML text.
//!
//! Speeds are drawn around what the jobs demand, from well below it to well above, so that any of them may be the limit.

use std::fmt::Write;

/// Random numbers that depend only on the seed (G. Steele et al., *Fast Splittable Pseudorandom Number Generators*, 2014).
struct Draws(u64);

impl Draws {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns whether something with this probability happens.
    fn chance(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[(self.bits() % values.len() as u64) as usize]
    }

    /// Returns a number between these, whose logarithm is uniform, to three digits.
    fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        digits(low * (high / low).powf(self.share()))
    }
}

/// Returns a number rounded to three digits.
fn digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// A job as far as its demand goes.
struct Job {
    nodes: u32,
    copies: u32,
    batch: u32,
    /// Step time [s].
    step: f64,
    storage: usize,
    /// Whether its loader reads.
    reads: bool,
}

impl Job {
    /// Samples that a node's model copies take each second.
    fn of_node(&self) -> f64 {
        f64::from(self.copies * self.batch) / self.step
    }

    fn rate(&self) -> f64 {
        if self.reads { f64::from(self.nodes) * self.of_node() } else { 0.0 }
    }
}

/// A scenario that is being written.
struct Writer {
    draw: Draws,
    text: String,
    jobs: Vec<Job>,
    cores: f64,
    /// Mean bytes of a sample.
    size: f64,
    nic: f64,
    /// Bandwidth of each storage [B/s].
    storages: Vec<f64>,
    caches: bool,
}

/// Returns the scenario with this seed. It may be one that is refused, or that takes too long.
pub(crate) fn scenario(seed: u64) -> String {
    // Neighbouring seeds must not give the same numbers, one call later.
    let mut draw = Draws(Draws(seed).bits());
    let count = draw.one_of(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 8]);
    let storages = draw.one_of(&[1, 1, 1, 2, 2, 3]);
    let jobs = (0..count).map(|_| job(&mut draw, count, storages)).collect();
    let cores = f64::from(draw.one_of(&[2, 4, 8, 16, 32]));
    let size = draw.log_uniform(5e3, 2e6);
    let caches = draw.chance(0.15);
    let (text, nic) = (format!("name = \"random-{seed}\"\n"), f64::INFINITY);
    let mut writer = Writer { draw, text, jobs, cores, size, nic, storages: vec![], caches };
    writer.run();
    writer.cluster();
    (0..storages).for_each(|index| writer.storage(index));
    writer.dataset();
    (0..count).for_each(|index| writer.job(index));
    writer.faults();
    writer.text
}

fn job(draw: &mut Draws, count: usize, storages: usize) -> Job {
    let small = count > 3;
    Job {
        nodes: if small { draw.one_of(&[1, 1, 1, 2]) } else { draw.one_of(&[1, 1, 1, 2, 3, 4]) },
        copies: if small { draw.one_of(&[1, 1, 2]) } else { draw.one_of(&[1, 1, 2, 2, 4]) },
        batch: if small { draw.one_of(&[2, 4, 8]) } else { draw.one_of(&[4, 8, 16]) },
        step: draw.log_uniform(3e-3, 6e-2),
        storage: draw.one_of(&[0, 1, 2]) % storages,
        reads: draw.chance(0.88),
    }
}

impl Writer {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}");
    }

    fn run(&mut self) {
        let steps = self.draw.one_of(&[60, 120, 300, 600]);
        let replications = self.draw.one_of(&[1, 1, 2, 5]);
        let run = match self.draw.one_of(&[0, 0, 0, 0, 1, 1, 2, 3]) {
            0 => return,
            1 => format!("run = {{ steps = {steps}, replications = {replications} }}"),
            2 => format!("run = {{ steps = {steps}, warm_up = {}, replications = 1 }}", steps / 10),
            _ => format!(
                "run = {{ duration = \"{} s\", replications = {replications} }}",
                steps / 30
            ),
        };
        self.line(&run);
    }

    fn cluster(&mut self) {
        let nodes: u32 = self.jobs.iter().map(|job| job.nodes).sum();
        let demand = self.jobs.iter().map(|job| job.of_node() * self.size).fold(0.0, f64::max);
        let group = if nodes > 1 && self.draw.chance(0.25) { 1 } else { 0 };
        let text = format!("[cluster]\nnodes = {}", nodes - group);
        self.line(&text);
        if nodes > 1 || self.draw.chance(0.6) {
            self.nic = self.draw.log_uniform(demand * 0.5, demand * 10.0);
            let latency = self.draw.one_of(&["5 us", "20 us", "200 us"]);
            let racks = if nodes > 3 && self.draw.chance(0.3) {
                let uplink = self.draw.log_uniform(self.nic * 0.5, self.nic * 4.0);
                format!(", racks = {{ nodes = 2, uplink = \"{uplink} B/s\" }}")
            } else {
                String::new()
            };
            let separate = if self.draw.chance(0.15) {
                format!(
                    ", storage_nic = \"{} B/s\"",
                    self.draw.log_uniform(demand * 0.5, demand * 8.0)
                )
            } else {
                String::new()
            };
            let text = format!(
                "network = {{ nic = \"{} B/s\", latency = \"{latency}\"{racks}{separate} }}",
                self.nic
            );
            self.line(&text);
        }
        self.node(demand);
        if group > 0 {
            self.group();
        }
    }

    fn node(&mut self, demand: f64) {
        let gpus = self.jobs.iter().map(|job| job.copies).max().unwrap_or(1);
        let text = format!("[cluster.node]\ngpus = {gpus}\ncores = {}", self.cores);
        self.line(&text);
        if self.caches {
            // Of all samples, a cache of files holds some.
            let bytes = self.size * self.samples() as f64;
            let capacity = self.draw.log_uniform(bytes * 0.2, bytes * 1.2);
            let policy = self.draw.one_of(&["lru", "random", "minio"]);
            let text = format!(
                "page_cache = {{ capacity = \"{capacity} B\", policy = \"{policy}\" }}\nmemory = \"64 GB\""
            );
            self.line(&text);
        } else if self.draw.chance(0.7) {
            self.line("page_cache = \"none\"");
        }
        if gpus > 1 && self.draw.chance(0.4) {
            let kind = self.draw.one_of(&["shared", "switch", "ring"]);
            let bandwidth = self.draw.log_uniform(1e9, 1e11);
            let text = format!(
                "intra = {{ kind = \"{kind}\", bandwidth = \"{bandwidth} B/s\", latency = \"5 us\" }}"
            );
            self.line(&text);
        }
        if self.draw.chance(0.15) {
            let text =
                format!("pcie = \"{} B/s\"", self.draw.log_uniform(demand * 0.5, demand * 8.0));
            self.line(&text);
        }
    }

    fn group(&mut self) {
        let node = match self.draw.one_of(&[0, 1, 2]) {
            0 => format!("node.cores = {}", self.cores / 2.0),
            1 => "node.gpu_speed = 0.7".to_owned(),
            _ => format!("nic = \"{} B/s\"", digits(self.nic / 3.0)),
        };
        let text = format!("[cluster.group.old]\nnodes = 1\n{node}");
        self.line(&text);
    }

    fn storage(&mut self, index: usize) {
        let users = || self.jobs.iter().filter(move |job| job.storage == index);
        let all: f64 = users().map(Job::rate).sum::<f64>().max(50.0);
        let node = users().map(Job::of_node).fold(50.0, f64::max);
        let size = self.size;
        let kind = self.draw.one_of(&[
            "file-server",
            "file-server",
            "file-server",
            "object-store",
            "local-disk",
            "parallel-fs",
            "nvme-of",
        ]);
        let demand = if kind == "local-disk" { node * size } else { all * size };
        let bandwidth = self.draw.log_uniform(demand * 0.4, demand * 8.0);
        self.storages.push(bandwidth);
        let latency = self.latency();
        let rate = self.draw.log_uniform(all * 0.5, all * 10.0);
        let stream = self.draw.log_uniform(size * node * 0.05, size * node * 2.0);
        let (has_rate, has_stream) = (self.draw.chance(0.5), self.draw.chance(0.4));
        let with = |has: bool, text: String| if has { format!("\n{text}") } else { String::new() };
        let rest = match kind {
            "file-server" | "nvme-of" => {
                let queues = self.draw.one_of(&[1, 4]);
                let own = match kind {
                    "nvme-of" => {
                        format!("\nqueues = {queues}\nqueue_depth = {}", self.draw.one_of(&[2, 32]))
                    }
                    _ => with(has_stream, format!("per_stream = \"{stream} B/s\"")),
                };
                let rate = with(has_rate, format!("operations = \"{rate} /s\""));
                format!("bandwidth = \"{bandwidth} B/s\"{rate}{own}")
            }
            "object-store" => format!(
                "bandwidth = \"{bandwidth} B/s\"\nper_connection = \"{stream} B/s\"{}",
                with(has_rate, format!("requests = \"{rate} /s\""))
            ),
            "local-disk" => {
                let seek = self.draw.log_uniform(0.05 / node, 1.0 / node).min(0.02);
                format!(
                    "bandwidth = \"{bandwidth} B/s\"{}",
                    with(self.draw.chance(0.3), format!("seek = \"{seek} s\""))
                )
            }
            _ => {
                let targets = self.draw.one_of(&[2, 4, 8]);
                format!(
                    "targets = {targets}\ntarget_bandwidth = \"{} B/s\"\nstripe_count = {}{}",
                    digits(bandwidth / f64::from(targets)),
                    self.draw.one_of(&[1, 2]),
                    with(has_rate, format!("operations = \"{rate} /s\""))
                )
            }
        };
        let name = storage_name(index);
        let text = format!("[storage.{name}.{kind}]\n{rest}\nlatency = {latency}");
        self.line(&text);
    }

    fn latency(&mut self) -> String {
        let mean = self.draw.log_uniform(1e-4, 5e-3);
        match self.draw.one_of(&[0, 1, 2]) {
            0 => format!("\"{mean} s\""),
            1 => format!("{{ exponential = {{ mean = \"{mean} s\" }} }}"),
            _ => format!(
                "{{ lognormal = {{ median = \"{mean} s\", p99 = \"{} s\" }} }}",
                digits(mean * 6.0)
            ),
        }
    }

    fn samples(&self) -> u64 {
        if self.caches { 2000 } else { 1_000_000 }
    }

    fn dataset(&mut self) {
        let samples = match self.draw.chance(0.1) {
            true => 4000,
            false => self.samples(),
        };
        let size = self.size;
        let size = match self.draw.one_of(&[0, 1, 2]) {
            0 => format!("\"{size} B\""),
            1 => format!("{{ gamma = {{ mean = \"{size} B\", cv = 0.4 }} }}"),
            _ => format!("{{ lognormal = {{ mean = \"{size} B\", cv = 0.8 }} }}"),
        };
        let shards = match self.draw.chance(0.12) {
            true => "\nlayout.shards = { samples = 100 }",
            false => "",
        };
        let text = format!("[dataset.d]\nsamples = {samples}\nsample_size = {size}{shards}");
        self.line(&text);
    }

    fn job(&mut self, index: usize) {
        let Job { nodes, copies, batch, step, storage, reads } = self.jobs[index];
        let name = job_name(index);
        let text = format!(
            "[[job]]\nname = \"{name}\"\nnodes = {nodes}\ndataset = \"d\"\nstorage = {}\nbatch = {batch}",
            quoted(storage_name(storage))
        );
        self.line(&text);
        if copies > 1 {
            let loaders = if self.draw.chance(0.2) { ", loaders = \"per-rank\"" } else { "" };
            let text = format!("parallel.data = {{ copies_per_node = {copies}{loaders} }}");
            self.line(&text);
        }
        let jitter = match self.draw.chance(0.25) {
            true => format!(", jitter.gamma.cv = {}", self.draw.one_of(&[0.05, 0.2, 0.5])),
            false => String::new(),
        };
        let launch = match self.draw.chance(0.1) {
            true => format!(", launch = \"{} s\"", self.draw.log_uniform(step * 0.1, step * 1.3)),
            false => String::new(),
        };
        let text = format!("model = {{ step = \"{step} s\"{jitter}{launch} }}");
        self.line(&text);
        match reads {
            true => self.loader(index),
            false => self.line("loader.in-memory = {}"),
        }
        if self.draw.chance(0.05) {
            let text = format!("cpu_quota = {}", digits(self.cores * 0.5));
            self.line(&text);
        }
        if nodes * copies > 1 && self.draw.chance(0.7) {
            self.sync(index);
        }
        self.checkpoint(index);
    }

    fn loader(&mut self, index: usize) {
        let rate = self.jobs[index].of_node();
        let decode = self.draw.log_uniform(0.05 * self.cores / rate, 1.6 * self.cores / rate);
        // So many workers that they keep up, with what they wait for besides decoding, or not quite.
        let workers = (rate * (decode + 2e-3) * self.draw.log_uniform(0.6, 4.0)).ceil();
        let workers = workers.clamp(1.0, 48.0) as u32;
        let decode = match self.draw.one_of(&[0, 1, 1, 2]) {
            0 => format!("\"{} s\"", digits(decode)),
            1 => format!("{{ gamma = {{ mean = \"{} s\", cv = 0.5 }} }}", digits(decode)),
            _ => format!("{{ lognormal = {{ mean = \"{} s\", cv = 0.8 }} }}", digits(decode)),
        };
        let loader = match self.draw.one_of(&[0, 0, 0, 0, 1, 2, 2, 3, 3, 4, 5]) {
            0 => self.pytorch(workers, &decode),
            1 => {
                let processes = self.draw.chance(0.6);
                let gil = if processes { "" } else { ", gil = 0.5" };
                format!(
                    "keras = {{ workers = {workers}, use_multiprocessing = {processes}{gil}, decode = {decode} }}"
                )
            }
            2 => format!(
                "tf-data = {{ parallel_reads = {}, parallel_calls = {workers}, prefetch = {}, deterministic = {}, decode = {decode} }}",
                self.draw.one_of(&[1, 2, 4, 16]),
                self.draw.one_of(&[1, 2, 4]),
                self.draw.chance(0.6)
            ),
            3 => format!(
                "tf-queue = {{ threads = {workers}, capacity = \"{} samples\", decode = {decode} }}",
                self.draw.one_of(&[64, 200, 1000])
            ),
            4 => format!(
                "dali = {{ threads = {workers}, readers = {}, decode = {decode} }}",
                self.draw.one_of(&[1, 4, 16])
            ),
            _ => format!(
                "stages = [{{ name = \"read\", workers = {}, buffer = \"128 samples\", per_sample = [\"read\"] }}, {{ name = \"decode\", workers = {workers}, unit = \"batch\", buffer = \"4 batches\", order = \"{}\", per_sample = [{{ compute = {decode} }}] }}]",
                self.draw.one_of(&[2, 8, 24]),
                self.draw.one_of(&["any", "in-order"])
            ),
        };
        self.line(&format!("loader.{loader}"));
    }

    fn pytorch(&mut self, workers: u32, decode: &str) -> String {
        let mut text = format!("pytorch = {{ workers = {workers}, decode = {decode}");
        if self.draw.chance(0.3) {
            let _ = write!(text, ", prefetch_factor = {}", self.draw.one_of(&[1, 4]));
        }
        if self.draw.chance(0.15) {
            text += ", in_order = false";
        }
        if self.draw.chance(0.15) {
            let _ =
                write!(text, ", worker_kind = \"thread\", gil = {}", self.draw.one_of(&[0.1, 0.5]));
        }
        if self.draw.chance(0.15) {
            let _ = write!(text, ", collate = \"{} s\"", self.draw.log_uniform(5e-4, 1e-2));
        }
        if self.draw.chance(0.1) {
            text += ", start = \"100 ms\"";
        }
        if self.draw.chance(0.15) {
            let _ = write!(
                text,
                ", pin_memory = \"{} s\", to_device = true",
                self.draw.log_uniform(5e-4, 2e-2)
            );
        }
        text + " }"
    }

    fn sync(&mut self, index: usize) {
        let Job { nodes, step, .. } = self.jobs[index];
        let bandwidth = if nodes > 1 && self.nic.is_finite() { self.nic } else { 1e10 };
        let bytes = self.draw.log_uniform(bandwidth * step * 0.03, bandwidth * step).max(1e4);
        let text = match self.draw.one_of(&[0, 0, 0, 0, 1, 2, 3, 4]) {
            0 => format!("sync.allreduce = {{ gradients = \"{bytes} B\" }}"),
            1 => format!("sync.reduce-broadcast = {{ parameters = \"{bytes} B\" }}"),
            2 => format!(
                "sync.model-averaging = {{ parameters = \"{bytes} B\", period = {} }}",
                self.draw.one_of(&[1, 4])
            ),
            3 => format!("sync.parameter-server = {{ parameters = \"{bytes} B\" }}"),
            _ => format!(
                "sync.elastic-averaging = {{ parameters = \"{bytes} B\", period = {} }}",
                self.draw.one_of(&[2, 8])
            ),
        };
        self.line(&text);
    }

    fn checkpoint(&mut self, index: usize) {
        if !self.draw.chance(0.2) {
            return;
        }
        let Job { step, storage, .. } = self.jobs[index];
        let steps = self.draw.one_of(&[5, 10, 20]);
        let bytes = self.storages[storage] * step * f64::from(steps);
        let bytes = self.draw.log_uniform(bytes * 0.03, bytes * 0.8);
        let rest = self.draw.one_of(&["", "", ", asynchronous = true", ", writers = \"each\""]);
        let text = format!("checkpoint = {{ steps = {steps}, bytes = \"{bytes} B\"{rest} }}");
        self.line(&text);
        if self.draw.chance(0.3) {
            let mtbf = digits(step * 300.0);
            let text = format!(
                "failures = {{ mtbf = \"{mtbf} s\", restart = \"{} s\" }}",
                digits(step * 20.0)
            );
            self.line(&text);
        }
    }

    fn faults(&mut self) {
        if self.draw.chance(0.15) {
            let factor = self.draw.one_of(&[0.1, 0.3, 0.6]);
            let storage = self.jobs[0].storage;
            let of = match self.draw.one_of(&[0, 1, 2, 3]) {
                0 => format!("storage = {}", quoted(storage_name(storage))),
                1 => "link = \"nic\"\nnodes = [0]".to_owned(),
                2 => "node = \"cores\"\nnodes = [0]".to_owned(),
                _ => "node = \"gpus\"\nnodes = [0]".to_owned(),
            };
            self.line(&format!("[[fault]]\n{of}\nfactor = {factor}"));
        }
        if self.draw.chance(0.08) {
            let streams = self.draw.one_of(&[2, 8]);
            let name = quoted(storage_name(self.jobs[0].storage));
            self.line(&format!(
                "[[background]]\nname = \"others\"\nstorage = {name}\nstreams.streams = {streams}"
            ));
        }
    }
}

/// Returns the name of a storage as a TOML key; one that has to be quoted, too.
fn storage_name(index: usize) -> &'static str {
    ["s", "\"my.nfs\"", "scratch"][index]
}

fn job_name(index: usize) -> &'static str {
    ["a", "res.net", "c", "d", "e", "f", "g", "h"][index]
}

/// Returns a TOML key's name as a TOML string; the key may be quoted.
fn quoted(name: &str) -> String {
    if name.starts_with('"') { name.to_owned() } else { format!("\"{name}\"") }
}
