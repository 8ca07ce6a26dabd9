//! What rank 0 and the other ranks say to each other.

use forebay_calibrate::measurement::Sample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// From rank 0 to a rank.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToRank {
    /// Rank 0 is alive.
    Beat,
    /// Asks for the rank's clock.
    Clock {
        /// Number of the question.
        number: u32,
    },
    /// Asks for work.
    Do {
        /// Number of the task.
        id: u64,
        /// The work.
        task: Box<Task>,
    },
    /// Ends all tasks early.
    Stop,
    /// Ends the rank.
    End,
}

/// From a rank to rank 0.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromRank {
    /// First message: where the rank listens for other ranks.
    Joined {
        /// Name of the node.
        node: String,
        /// Where the rank listens.
        address: SocketAddr,
        /// What the node is like.
        facts: Box<Facts>,
    },
    /// The rank is alive.
    Beat,
    /// The rank's clock [s].
    Clock {
        /// Number of the question.
        number: u32,
        /// Time since the rank started [s].
        here: f64,
        /// Wall clock [s since 1970].
        wall: f64,
    },
    /// A task makes progress and needs more time.
    Going,
    /// A sample of a task that is still running.
    Sample(Box<Sample>),
    /// Result of a task.
    Done {
        /// Number of the task.
        id: u64,
        /// What was found, or why nothing was.
        result: Result<Found, String>,
    },
}

/// Hardware and software of a node, in which the nodes of a cluster should agree.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Version of forebay.
    pub version: String,
    /// Boot id of the kernel, which all containers of a machine share.
    pub boot: String,
    /// Number of cores that the rank may use.
    pub cores: f64,
    /// Memory that the rank may use [B].
    pub memory: f64,
    /// Number of GPUs that the rank can use.
    pub gpus: usize,
    /// Facts by name, as text: processor, kernel, file system, interface, MTU, GPUs.
    pub named: BTreeMap<String, String>,
    /// Free space in the directory that is measured [B]; `None` if there is no such directory.
    pub free: Option<u64>,
}

/// Which files are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Files {
    /// Files that a rank wrote: `count` files of `size` B in `folder`.
    Written {
        /// The folder.
        folder: PathBuf,
        /// Size of each file [B].
        size: u64,
        /// Number of files.
        count: u64,
    },
    /// The user's own files, with the size of the part of each that is read [B].
    Own(Vec<(PathBuf, u64)>),
}

/// Begin, warm-up and window of a trial, by the clock of the rank [s].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// When all ranks begin.
    pub start: f64,
    /// Warm-up: time after the begin in which nothing is counted.
    pub skip: f64,
    /// Length of the window in which is counted.
    pub length: f64,
}

/// Work of a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Task {
    /// Runs the probes of a plan on this node alone, in a directory of its own.
    Alone {
        /// Name of the plan.
        name: String,
        /// Text of the plan.
        plan: String,
        /// Probes to run; all if empty.
        only: Vec<String>,
        /// Time limit [s].
        budget: f64,
        /// Samples of this node that an earlier run has taken.
        earlier: Vec<Sample>,
    },
    /// Writes files, each of which has random bytes.
    Write {
        /// The folder, which is made.
        folder: PathBuf,
        /// Sizes [B] and numbers of files.
        sizes: Vec<(u64, u64)>,
        /// Random seed of the bytes.
        seed: u64,
    },
    /// Waits until a file is visible.
    Look {
        /// The file.
        path: PathBuf,
        /// Its size [B].
        size: u64,
        /// Longest time to wait [s].
        patience: f64,
    },
    /// Reads files, one after the other by each stream.
    Read {
        /// The files.
        files: Files,
        /// Number of threads.
        streams: usize,
        /// Whether to read past the page cache.
        direct: bool,
        /// Whether to close files after opening them, without reading.
        only_open: bool,
        /// When the trial counts.
        timing: Timing,
        /// Random seed of the order of the files.
        seed: u64,
    },
    /// Writes a file with each stream, and waits until it is stored.
    Checkpoint {
        /// The folder, which is there.
        folder: PathBuf,
        /// Number of threads.
        streams: usize,
        /// Bytes of each file [B].
        bytes: u64,
        /// When to begin.
        start: f64,
    },
    /// Sends to another rank.
    Send {
        /// Where the other rank listens.
        to: SocketAddr,
        /// Mark of these connections.
        tag: u64,
        /// Number of connections.
        streams: usize,
        /// When the trial counts.
        timing: Timing,
    },
    /// Receives from another rank.
    Receive {
        /// Mark of these connections.
        tag: u64,
        /// Number of connections.
        streams: usize,
        /// When the trial counts.
        timing: Timing,
    },
    /// Sends short messages to another rank, and waits for each to come back.
    Knock {
        /// Where the other rank listens.
        to: SocketAddr,
        /// Mark of the connection.
        tag: u64,
        /// Number of messages.
        count: u32,
    },
    /// Sends back short messages.
    Echo {
        /// Mark of the connection.
        tag: u64,
        /// Number of messages.
        count: u32,
    },
    /// Runs all-reduce in a ring of ranks.
    AllReduce {
        /// Where the next rank listens.
        next: SocketAddr,
        /// Mark of the connections.
        tag: u64,
        /// Number of this rank in the ring.
        position: usize,
        /// Number of ranks in the ring.
        ranks: usize,
        /// Size of each vector [B].
        bytes: usize,
        /// Number of times.
        times: u32,
        /// When to begin, and which rounds count; all if the length is 0.
        timing: Timing,
    },
    /// Makes the id of a new NCCL communicator (`ncclUniqueId`).
    NcclId,
    /// Runs all-reduce by NCCL among all GPUs of all ranks.
    Nccl {
        /// Id of the communicator, as hexadecimal digits.
        id: String,
        /// Number of the rank's first GPU among all.
        first: usize,
        /// Number of GPUs of all ranks.
        all: usize,
        /// Sizes of the vectors [B].
        sizes: Vec<usize>,
        /// Number of trials of each size.
        trials: usize,
    },
    /// Runs another program with this process's environment, so that it is the same rank of MPI.
    Run {
        /// Program and arguments.
        command: Vec<String>,
        /// Longest time [s].
        patience: f64,
    },
    /// Removes a folder with working files.
    Remove {
        /// The folder.
        folder: PathBuf,
    },
}

/// What a task found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Found {
    /// Number of operations or bytes in the window.
    pub count: f64,
    /// Rate of these [1/s].
    pub rate: f64,
    /// Length of the window, or time of the task if it has none [s].
    pub seconds: f64,
    /// How late the task began [s].
    pub late: f64,
    /// Further figures, by name.
    pub figures: BTreeMap<String, f64>,
    /// Lines for the user, or the output of a program.
    pub lines: Vec<String>,
}
