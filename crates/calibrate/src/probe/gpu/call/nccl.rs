//! Collectives by NCCL. This module loads NCCL itself, because cudarc looks for another file name.

use super::device::Gpu;
use super::failed;
use crate::probe::ProbeError;
use crate::probe::gpu::libraries::{self, NCCL};
use crate::probe::gpu::task::Exchange;
use crate::probe::gpu::together::UNIQUE;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use forebay_model::input::shown;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

type Communicator = *mut c_void;

/// NCCL's `ncclUniqueId`, by which ranks of several processes find each other.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; UNIQUE]);
type Stream = *mut c_void;
/// NCCL's constants `ncclFloat32` (`FLOAT`) and `ncclSum` (`SUM`).
const FLOAT: c_int = 7;
const SUM: c_int = 0;

/// NCCL's functions, as its header `nccl.h` of version 2 declares them.
struct Functions {
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    words: unsafe extern "C" fn(c_int) -> *const c_char,
    begin_all: unsafe extern "C" fn(*mut Communicator, c_int, *const c_int) -> c_int,
    unique: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    begin_rank: unsafe extern "C" fn(*mut Communicator, c_int, UniqueId, c_int) -> c_int,
    end: unsafe extern "C" fn(Communicator) -> c_int,
    group: unsafe extern "C" fn() -> c_int,
    group_end: unsafe extern "C" fn() -> c_int,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Communicator,
        Stream,
    ) -> c_int,
    reduce_scatter: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Communicator,
        Stream,
    ) -> c_int,
    all_gather: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        Communicator,
        Stream,
    ) -> c_int,
    broadcast: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Communicator,
        Stream,
    ) -> c_int,
    reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        c_int,
        Communicator,
        Stream,
    ) -> c_int,
    _library: Library,
}

impl Functions {
    /// Opens the library and finds all functions.
    fn open() -> Result<Functions, String> {
        let library = open()?;
        // SAFETY: the header of version 2 declares these names with these types; the library outlives the
        // functions.
        unsafe {
            macro_rules! find {
                ($name:literal) => {
                    *library.get(concat!($name, "\0").as_bytes()).map_err(|_| {
                        format!("{} has no {}: this is not NCCL 2", NCCL.file, $name)
                    })?
                };
            }
            Ok(Functions {
                version: find!("ncclGetVersion"),
                words: find!("ncclGetErrorString"),
                begin_all: find!("ncclCommInitAll"),
                unique: find!("ncclGetUniqueId"),
                begin_rank: find!("ncclCommInitRank"),
                end: find!("ncclCommDestroy"),
                group: find!("ncclGroupStart"),
                group_end: find!("ncclGroupEnd"),
                all_reduce: find!("ncclAllReduce"),
                reduce_scatter: find!("ncclReduceScatter"),
                all_gather: find!("ncclAllGather"),
                broadcast: find!("ncclBroadcast"),
                reduce: find!("ncclReduce"),
                _library: library,
            })
        }
    }

    /// Returns an error with NCCL's message unless `result` means success.
    fn check(&self, doing: &str, result: c_int) -> Result<(), ProbeError> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: NCCL returns a static string for every error number.
        let words = unsafe { CStr::from_ptr((self.words)(result)) };
        Err(ProbeError::Machine(format!("NCCL cannot {doing}: {}", words.to_string_lossy())))
    }

    fn version(&self) -> String {
        let mut version = 0;
        // SAFETY: the function writes one number.
        unsafe { (self.version)(&mut version) };
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }
}

/// Opens the library from the folder in which it is found, otherwise through the system's loader.
fn open() -> Result<Library, String> {
    let folders = libraries::folders();
    let path = libraries::find(NCCL, &folders).unwrap_or_else(|| PathBuf::from(NCCL.file));
    // SAFETY: opening the library runs its initialisers, as it does in every program that uses it.
    unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|error| {
        if path.is_absolute() {
            format!("{} cannot be opened: {error}", shown(&path))
        } else {
            libraries::missing(NCCL, &folders)
        }
    })
}

/// Returns NCCL's version, or why NCCL cannot be used.
pub(in crate::probe::gpu) fn version() -> Result<String, String> {
    Functions::open().map(|functions| functions.version())
}

/// Returns a new number by which ranks of several processes find each other, or why NCCL cannot be used.
pub(in crate::probe::gpu) fn unique() -> Result<[u8; UNIQUE], ProbeError> {
    let functions = Functions::open().map_err(ProbeError::Machine)?;
    let mut id = UniqueId([0; UNIQUE]);
    // SAFETY: the function writes one number of this size.
    functions.check("number a run", unsafe { (functions.unique)(&mut id) })?;
    Ok(id.0)
}

/// NCCL ranks on the GPUs 0, 1, … of this machine: one on each.
pub(in crate::probe) struct Ranks {
    functions: Functions,
    communicators: Vec<Communicator>,
    ranks: Vec<Rank>,
    /// Number of ranks on all machines.
    all: usize,
}

/// A GPU with a stream, a send buffer (`from`) and a receive buffer (`to`).
struct Rank {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    from: CudaSlice<u8>,
    to: CudaSlice<u8>,
}

impl Rank {
    fn new(number: usize, bytes: usize) -> Result<Rank, ProbeError> {
        let context = Gpu::context(number)?;
        let stream = context.new_stream().map_err(failed("make a stream"))?;
        let memory = || stream.alloc_zeros::<u8>(bytes).map_err(failed("get memory of the GPU"));
        let (from, to) = (memory()?, memory()?);
        stream.synchronize().map_err(failed("wait for the GPU"))?;
        Ok(Rank { context, stream, from, to })
    }

    fn wait(&self) -> Result<(), ProbeError> {
        self.stream.synchronize().map_err(failed("wait for the GPU"))
    }
}

impl Ranks {
    /// Makes `count` ranks for collectives of up to `bytes`.
    pub(in crate::probe) fn open(count: usize, bytes: usize) -> Result<Ranks, ProbeError> {
        let functions = Functions::open().map_err(ProbeError::Machine)?;
        // In the smallest collective each rank's part is one number.
        let bytes = bytes.max(4 * count);
        let ranks = (0..count).map(|number| Rank::new(number, bytes)).collect::<Result<_, _>>()?;
        let mut communicators = vec![ptr::null_mut(); count];
        let numbers: Vec<c_int> = (0..count as c_int).collect();
        // SAFETY: both lists have `count` elements.
        let result = unsafe {
            (functions.begin_all)(communicators.as_mut_ptr(), count as c_int, numbers.as_ptr())
        };
        functions.check("join the GPUs", result)?;
        Ok(Ranks { functions, communicators, ranks, all: count })
    }

    /// Makes `count` ranks on this machine, of `all` on several machines, for collectives of up to `bytes`. The first one has the number
    /// `first`; all use the same `id`.
    pub(in crate::probe) fn join(
        id: [u8; UNIQUE],
        first: usize,
        count: usize,
        all: usize,
        bytes: usize,
    ) -> Result<Ranks, ProbeError> {
        let functions = Functions::open().map_err(ProbeError::Machine)?;
        let bytes = bytes.max(4 * all);
        let ranks: Vec<Rank> =
            (0..count).map(|number| Rank::new(number, bytes)).collect::<Result<_, _>>()?;
        let mut communicators = vec![ptr::null_mut(); count];
        // SAFETY: the function has no arguments.
        functions.check("begin", unsafe { (functions.group)() })?;
        for (index, rank) in ranks.iter().enumerate() {
            rank.context.bind_to_thread().map_err(failed("use the GPU"))?;
            let (all, number) = (all as c_int, (first + index) as c_int);
            // SAFETY: the communicator lives until the group ends below.
            let result = unsafe {
                (functions.begin_rank)(&mut communicators[index], all, UniqueId(id), number)
            };
            functions.check("join the GPUs", result)?;
        }
        // SAFETY: the function has no arguments.
        functions.check("join the GPUs", unsafe { (functions.group_end)() })?;
        Ok(Ranks { functions, communicators, ranks, all })
    }

    /// Runs a collective `times` times and waits for the end; `bytes` is the size of the larger of a rank's
    /// send and receive buffers.
    pub(in crate::probe) fn run(
        &self,
        exchange: Exchange,
        bytes: usize,
        times: u64,
    ) -> Result<(), ProbeError> {
        for _ in 0..times {
            // SAFETY: the function has no arguments.
            self.functions.check("begin", unsafe { (self.functions.group)() })?;
            for (rank, communicator) in self.ranks.iter().zip(&self.communicators) {
                rank.context.bind_to_thread().map_err(failed("use the GPU"))?;
                self.functions.check("exchange", self.one(exchange, bytes, rank, *communicator))?;
            }
            // SAFETY: the function has no arguments.
            self.functions.check("exchange", unsafe { (self.functions.group_end)() })?;
        }
        self.ranks.iter().try_for_each(Rank::wait)
    }

    fn one(&self, of: Exchange, bytes: usize, rank: &Rank, communicator: Communicator) -> c_int {
        let Functions { all_reduce, reduce_scatter, all_gather, broadcast, reduce, .. } =
            &self.functions;
        let (from, to) = (rank.from.device_ptr(&rank.stream).0, rank.to.device_ptr(&rank.stream).0);
        let (from, to) = (from as *const c_void, to as *mut c_void);
        let stream: Stream = rank.stream.cu_stream().cast();
        let whole = bytes / 4;
        let part = (whole / self.all).max(1);
        // SAFETY: both buffers are as long as the largest collective; buffers and streams live until the
        // streams have finished.
        unsafe {
            match of {
                Exchange::AllReduce => {
                    all_reduce(from, to, whole, FLOAT, SUM, communicator, stream)
                }
                Exchange::ReduceScatter => {
                    reduce_scatter(from, to, part, FLOAT, SUM, communicator, stream)
                }
                Exchange::AllGather => all_gather(from, to, part, FLOAT, communicator, stream),
                Exchange::Broadcast => broadcast(from, to, whole, FLOAT, 0, communicator, stream),
                Exchange::Reduce => reduce(from, to, whole, FLOAT, SUM, 0, communicator, stream),
            }
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        // An error can no longer be reported.
        self.ranks.iter().try_for_each(Rank::wait).ok();
        for communicator in &self.communicators {
            // SAFETY: the communicator was made by us and is used no more.
            unsafe { (self.functions.end)(*communicator) };
        }
    }
}

impl std::fmt::Debug for Ranks {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} ranks", self.ranks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// System: any machine, with or without NCCL. Expectation: a version, or a message that names the missing
    /// file.
    #[test]
    fn looking_for_nccl_ends_without_panic() {
        match version() {
            Ok(version) => assert!(version.starts_with("2."), "{version}"),
            Err(why) => assert!(why.contains("libnccl.so.2"), "{why}"),
        }
    }
}
