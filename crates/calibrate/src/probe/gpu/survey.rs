//! CUDA installation of this machine: driver, GPUs, libraries.

use super::libraries;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// CUDA installation of this machine: driver, GPUs, libraries.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// CUDA version that the driver supports, such as `13.0`, or why no GPU can be used.
    pub driver: Result<String, String>,
    /// Version of the driver itself, such as `580.159.04`, if NVML reports it.
    pub driver_release: Option<String>,
    /// GPUs as NVML reports them, even if the driver is too old.
    pub gpus: Vec<Card>,
    /// Libraries, in the order in which they are opened.
    pub libraries: Vec<Found>,
    /// Version of NCCL, which collectives need, or what is missing.
    pub nccl: Result<String, String>,
    /// Folders that were searched for libraries before the system's loader was asked.
    pub folders: Vec<PathBuf>,
}

/// A GPU as NVML reports it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Card {
    /// Product name.
    pub name: String,
    /// Total and free memory [B].
    pub memory: Option<(u64, u64)>,
    /// Compute capability, such as `9.0`.
    pub capability: Option<String>,
    /// Current clock of the multiprocessors [Hz].
    pub clock: Option<f64>,
    /// Highest clock of the multiprocessors [Hz].
    pub most_clock: Option<f64>,
    /// Temperature [°C].
    pub temperature: Option<u32>,
    /// Reasons why the clock is throttled now.
    pub throttled: Vec<String>,
}

/// A GPU's clock at one instant.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::probe) struct Beat {
    /// Clock of the multiprocessors [Hz].
    pub(in crate::probe) clock: f64,
    /// Highest clock of the multiprocessors [Hz].
    pub(in crate::probe) most: f64,
    /// Reasons why the clock is throttled.
    pub(in crate::probe) held: Vec<String>,
}

impl Beat {
    /// Returns why times measured between the beat `before` and this beat must not be used; `None` if they may be
    /// used. They must not be used if the clock was throttled, except by the power limit, which occurs in every
    /// long computation.
    pub(in crate::probe) fn disturbed(&self, before: &Beat) -> Option<String> {
        let usual = |why: &&String| *why != POWER_LIMIT;
        let why = self.held.iter().chain(&before.held).find(usual)?;
        Some(format!("the GPU's clock was held down: {why}"))
    }
}

/// Reason for throttling that occurs on every GPU that has much to do.
const POWER_LIMIT: &str = "power limit";

/// A library that CUDA code needs, and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Common name of the library.
    pub name: &'static str,
    /// File name.
    pub file: &'static str,
    /// Path of the library, or `None` if the system's loader found it; otherwise what is missing, with a
    /// remedy.
    pub place: Result<Option<PathBuf>, String>,
    /// Version, if the library reports one.
    pub version: Option<String>,
}

impl Survey {
    /// Examines this machine.
    #[must_use]
    pub fn look() -> Survey {
        let folders = libraries::folders();
        Survey {
            driver: driver().map(|(version, _)| version),
            driver_release: driver_release(),
            gpus: boards(),
            libraries: libraries(&folders),
            nccl: nccl(),
            folders,
        }
    }

    /// Returns the names of the GPUs and the versions of the driver and of the libraries, by lower-case name; empty if there is no
    /// usable GPU.
    #[must_use]
    pub fn versions(&self) -> BTreeMap<String, String> {
        let Ok(cuda) = &self.driver else { return BTreeMap::new() };
        let mut names: Vec<&str> = self.gpus.iter().map(|card| card.name.as_str()).collect();
        let count = names.len();
        names.dedup();
        let release = self.driver_release.as_deref().unwrap_or("unknown");
        let mut versions: BTreeMap<String, String> = [
            ("gpus".to_owned(), format!("{count} × {}", names.join(", "))),
            ("driver".to_owned(), format!("{release} for CUDA {cuda}")),
        ]
        .into();
        let version = |of: &Found| Some((of.name.to_lowercase(), of.version.clone()?));
        versions.extend(self.libraries.iter().filter_map(version));
        versions.extend(self.nccl.as_ref().ok().map(|of| ("nccl".to_owned(), of.clone())));
        versions
    }

    /// Checks that training steps can be measured on a GPU.
    ///
    /// # Errors
    /// If lists everything that is missing.
    pub fn ready(&self) -> Result<(), String> {
        let libraries = self.libraries.iter().filter_map(|of| of.place.as_ref().err());
        let missing: Vec<&str> =
            self.driver.as_ref().err().into_iter().chain(libraries).map(String::as_str).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join("\n")) }
    }
}

/// Loads CUDA's libraries and checks that steps can be trained on GPU number `number`.
///
/// # Errors
/// If names the first thing that is missing.
#[cfg(feature = "cuda")]
pub fn ready(number: usize) -> Result<(), String> {
    let (_, count) = driver()?;
    if number >= count {
        let last = count - 1;
        return Err(format!("there is no GPU {number}: write cuda:0 to cuda:{last}"));
    }
    let folders = libraries::folders();
    libraries::LIBRARIES.iter().try_for_each(|&of| super::call::load(of, &folders).map(|_| ()))
}

/// Reports that steps cannot be trained on any GPU.
///
/// # Errors
/// If always, because this program was built without CUDA.
#[cfg(not(feature = "cuda"))]
pub fn ready(_: usize) -> Result<(), String> {
    Err(super::ABSENT.to_owned())
}

/// Returns the number of GPUs that the driver counts.
///
/// # Errors
/// If there is no usable driver, or no GPU.
pub(in crate::probe) fn count() -> Result<usize, String> {
    driver().map(|(_, count)| count)
}

/// Returns NCCL's version.
///
/// # Errors
/// If nCCL is missing or cannot be opened.
#[cfg(feature = "cuda")]
pub(in crate::probe) fn nccl() -> Result<String, String> {
    super::call::nccl()
}

/// Reports that NCCL cannot be used.
///
/// # Errors
/// If always, because this program was built without CUDA.
#[cfg(not(feature = "cuda"))]
pub(in crate::probe) fn nccl() -> Result<String, String> {
    Err(super::ABSENT.to_owned())
}

/// Returns the CUDA version that the driver supports and the number of GPUs.
#[cfg(feature = "cuda")]
fn driver() -> Result<(String, usize), String> {
    let (version, count) = super::call::driver()?;
    Ok((format!("{}.{}", version / 1000, version % 1000 / 10), count))
}

#[cfg(not(feature = "cuda"))]
fn driver() -> Result<(String, usize), String> {
    Err(super::ABSENT.to_owned())
}

#[cfg(feature = "cuda")]
fn libraries(folders: &[PathBuf]) -> Vec<Found> {
    let look = |&library: &libraries::Library| {
        let place = super::call::load(library, folders);
        let version = place.is_ok().then(|| super::call::version(library)).flatten();
        Found { name: library.name, file: library.file, place, version }
    };
    libraries::LIBRARIES.iter().map(look).collect()
}

#[cfg(not(feature = "cuda"))]
fn libraries(_: &[PathBuf]) -> Vec<Found> {
    Vec::new()
}

/// Returns the version of the driver, as NVML reports it.
#[cfg(feature = "cuda")]
fn driver_release() -> Option<String> {
    nvml_wrapper::Nvml::init().ok()?.sys_driver_version().ok()
}

#[cfg(not(feature = "cuda"))]
fn driver_release() -> Option<String> {
    None
}

/// Returns the GPUs as NVML, which comes with the driver, reports them.
#[cfg(feature = "cuda")]
fn boards() -> Vec<Card> {
    use nvml_wrapper::Nvml;
    use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
    let Ok(nvml) = Nvml::init() else { return Vec::new() };
    let hertz = |megahertz: u32| f64::from(megahertz) * 1e6;
    let board = |index: u32| {
        let of = nvml.device_by_index(index).ok()?;
        let capability = of.cuda_compute_capability().ok();
        Some(Card {
            name: of.name().unwrap_or_default(),
            memory: of.memory_info().ok().map(|memory| (memory.total, memory.free)),
            capability: capability.map(|version| format!("{}.{}", version.major, version.minor)),
            clock: of.clock_info(Clock::SM).ok().map(hertz),
            most_clock: of.max_clock_info(Clock::SM).ok().map(hertz),
            temperature: of.temperature(TemperatureSensor::Gpu).ok(),
            throttled: of.current_throttle_reasons().map(reasons).unwrap_or_default(),
        })
    };
    (0..nvml.device_count().unwrap_or(0)).filter_map(board).collect()
}

#[cfg(not(feature = "cuda"))]
fn boards() -> Vec<Card> {
    Vec::new()
}

/// Reads a GPU's clock from time to time, while something is timed on the GPU.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub(super) struct Pulse {
    nvml: Option<nvml_wrapper::Nvml>,
    number: u32,
}

#[cfg(feature = "cuda")]
impl Pulse {
    /// Returns a reader for GPU number `number`; without NVML it reads nothing.
    pub(super) fn new(number: usize) -> Pulse {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        Pulse { nvml: nvml_wrapper::Nvml::init().ok(), number }
    }

    /// Reads the current and the highest clock of the multiprocessors and the reasons for throttling; `None` if
    /// NVML does not report them.
    pub(super) fn look(&self) -> Option<Beat> {
        use nvml_wrapper::enum_wrappers::device::Clock;
        let of = self.nvml.as_ref()?.device_by_index(self.number).ok()?;
        let hertz = |megahertz: u32| f64::from(megahertz) * 1e6;
        Some(Beat {
            clock: hertz(of.clock_info(Clock::SM).ok()?),
            most: hertz(of.max_clock_info(Clock::SM).ok()?),
            held: of.current_throttle_reasons().map(reasons).unwrap_or_default(),
        })
    }
}

/// Returns the reasons for throttling in words; idleness does not count as a reason.
#[cfg(feature = "cuda")]
fn reasons(of: nvml_wrapper::bitmasks::device::ThrottleReasons) -> Vec<String> {
    use nvml_wrapper::bitmasks::device::ThrottleReasons as Reason;
    let words = [
        (Reason::APPLICATIONS_CLOCKS_SETTING, "clocks set by an administrator"),
        (Reason::SW_POWER_CAP, POWER_LIMIT),
        (Reason::HW_SLOWDOWN, "slowdown by the hardware"),
        (Reason::SYNC_BOOST, "clocks tied to other GPUs"),
        (Reason::SW_THERMAL_SLOWDOWN, "temperature"),
        (Reason::HW_THERMAL_SLOWDOWN, "temperature, by the hardware"),
        (Reason::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    ];
    let held = words.iter().filter(|(reason, _)| of.contains(*reason));
    held.map(|(_, words)| (*words).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_gpu_drivers_and_libraries_are_reported() {
        let found = |place| Found { name: "a", file: "liba.so", place, version: None };
        let survey = Survey {
            driver: Err("no driver".into()),
            driver_release: None,
            gpus: Vec::new(),
            libraries: vec![found(Err("no a".into())), found(Ok(None))],
            nccl: Err(String::new()),
            folders: Vec::new(),
        };
        assert_eq!(survey.ready(), Err("no driver\nno a".into()));
        let fine = Survey { driver: Ok("13.0".into()), libraries: vec![found(Ok(None))], ..survey };
        assert_eq!(fine.ready(), Ok(()));
    }

    #[test]
    fn gpus_driver_and_libraries_are_listed_with_their_versions() {
        let library =
            Found { name: "cuDNN", file: "l", place: Ok(None), version: Some("9.19.0".into()) };
        let unnamed = Found { name: "cuBLASLt", version: None, ..library.clone() };
        let card = Card { name: "NVIDIA H100".into(), ..Card::default() };
        let survey = Survey {
            driver: Ok("13.0".into()),
            driver_release: Some("580.1".into()),
            gpus: vec![card.clone(), card],
            libraries: vec![unnamed, library],
            nccl: Ok("2.28.9".into()),
            folders: Vec::new(),
        };
        let expected = [
            ("cudnn", "9.19.0"),
            ("driver", "580.1 for CUDA 13.0"),
            ("gpus", "2 × NVIDIA H100"),
            ("nccl", "2.28.9"),
        ];
        let found = survey.versions();
        let found: Vec<(&str, &str)> = found.iter().map(|(of, is)| (&of[..], &is[..])).collect();
        assert_eq!(found, expected);
        assert!(Survey { driver: Err("none".into()), ..survey }.versions().is_empty());
    }

    #[test]
    fn trials_with_throttled_clocks_are_excluded() {
        let beat = |held: &[&str]| Beat {
            held: held.iter().map(|why| (*why).to_owned()).collect(),
            ..Beat::default()
        };
        let (fine, hot) = (beat(&[POWER_LIMIT]), beat(&["temperature"]));
        assert_eq!(fine.disturbed(&beat(&[])), None);
        for (before, after) in [(&fine, &hot), (&hot, &fine)] {
            let why = after.disturbed(before).expect("a reason");
            assert!(why.contains("held down: temperature"), "{why}");
        }
    }

    /// System: any machine, with or without a driver. Expectation: a version, or a message that says why there
    /// is none.
    #[test]
    fn the_gpu_survey_ends_without_panic_on_any_machine() {
        let survey = Survey::look();
        assert_eq!(survey.driver.is_err(), survey.driver.is_err_and(|why| why.len() > 10));
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn an_idle_gpu_is_not_reported_as_throttled() {
        use nvml_wrapper::bitmasks::device::ThrottleReasons as Reason;
        assert!(reasons(Reason::GPU_IDLE).is_empty());
        assert_eq!(reasons(Reason::SW_POWER_CAP | Reason::GPU_IDLE), ["power limit"]);
    }
}
