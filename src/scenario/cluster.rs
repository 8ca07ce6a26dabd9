//! The machines.

/// Identical nodes on one switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Number of nodes.
    pub nodes: u32,
    /// What each is made of.
    pub node: Node,
    /// NIC bandwidth in each direction [B/s]; infinite where not given.
    pub nic: f64,
    /// One-way network latency [s], paid twice by every request to a storage that is not on the
    /// node.
    pub latency: f64,
}

/// What a node is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// CPU cores.
    pub cores: u32,
    /// How threads get cores.
    pub scheduling: Scheduling,
    /// Accelerators.
    pub gpus: u32,
    /// Speed of an accelerator against the one that step times were given for.
    pub gpu_speed: f64,
    /// Main memory [B]; infinite where not given.
    pub memory: f64,
    /// Host-to-device bandwidth of each GPU [B/s]; infinite where not given.
    pub pcie: f64,
    /// Link between the GPUs of a node.
    pub intra: Intra,
}

/// Link between the GPUs of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intra {
    /// Bandwidth [B/s]; infinite where not given.
    pub bandwidth: f64,
    /// Latency [s].
    pub latency: f64,
}

/// How threads get cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// All runnable threads share the cores evenly, none faster than one core (an operating
    /// system's scheduler).
    Shared,
    /// Each piece of work holds one core from start to end; others queue in order of arrival.
    Fifo,
}
