//! What there is of CUDA on this machine: driver, GPUs, libraries.

use super::libraries;
use std::path::PathBuf;

/// What there is of CUDA.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// Version of CUDA that the driver can do, `13.0`, or why nothing can be computed.
    pub driver: Result<String, String>,
    /// GPUs, as far as NVML tells; also where the driver is too old.
    pub gpus: Vec<Card>,
    /// Libraries, in the order in which they are opened.
    pub libraries: Vec<Found>,
    /// The version of what collectives need besides, or what is missing.
    pub nccl: Result<String, String>,
    /// Folders in which they were looked for, before the system's loader was asked.
    pub folders: Vec<PathBuf>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// Its memory, and what is free of it [B].
    pub memory: Option<(u64, u64)>,
    /// Version of its instructions, `9.0`.
    pub capability: Option<String>,
    /// Clock of its multiprocessors now and at most [Hz].
    pub clock: Option<f64>,
    /// The same at most [Hz].
    pub most_clock: Option<f64>,
    /// Temperature [°C].
    pub temperature: Option<u32>,
    /// What holds the clock down now.
    pub throttled: Vec<String>,
}

/// A GPU's clock at one instant.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::probe) struct Beat {
    /// [Hz].
    pub(in crate::probe) clock: f64,
    /// The highest that it can have [Hz].
    pub(in crate::probe) most: f64,
    /// What holds it down.
    pub(in crate::probe) held: Vec<String>,
}

impl Beat {
    /// Why what was timed between two looks must not be used: something other than the power limit, which is
    /// always there, held the clock down.
    pub(in crate::probe) fn disturbed(&self, before: &Beat) -> Option<String> {
        let usual = |why: &&String| *why != POWER_LIMIT;
        let why = self.held.iter().chain(&before.held).find(usual)?;
        Some(format!("the GPU's clock was held down: {why}"))
    }
}

/// What holds clocks down wherever a GPU has much to do.
const POWER_LIMIT: &str = "power limit";

/// A library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// As people call it.
    pub name: &'static str,
    /// Its file.
    pub file: &'static str,
    /// Where it is, unless the system's loader found it; or what is missing, and what to do.
    pub place: Result<Option<PathBuf>, String>,
    /// Its version, where it tells.
    pub version: Option<String>,
}

impl Survey {
    /// Looks.
    #[must_use]
    pub fn look() -> Survey {
        let folders = libraries::folders();
        Survey {
            driver: driver().map(|(version, _)| version),
            gpus: boards(),
            libraries: libraries(&folders),
            nccl: nccl(),
            folders,
        }
    }

    /// Whether training steps can be measured on a GPU, or what is missing for that.
    ///
    /// # Errors
    /// Everything that is missing.
    pub fn ready(&self) -> Result<(), String> {
        let libraries = self.libraries.iter().filter_map(|of| of.place.as_ref().err());
        let missing: Vec<&str> =
            self.driver.as_ref().err().into_iter().chain(libraries).map(String::as_str).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join("\n")) }
    }
}

/// Whether steps can be trained on the GPU of a number.
///
/// # Errors
/// What is missing first.
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

/// Whether steps can be trained on the GPU of a number.
///
/// # Errors
/// This program cannot use any.
#[cfg(not(feature = "cuda"))]
pub fn ready(_: usize) -> Result<(), String> {
    Err(super::ABSENT.to_owned())
}

/// Number of GPUs that the driver counts.
///
/// # Errors
/// There is none.
pub(in crate::probe) fn count() -> Result<usize, String> {
    driver().map(|(_, count)| count)
}

/// NCCL's version.
///
/// # Errors
/// It is missing.
#[cfg(feature = "cuda")]
pub(in crate::probe) fn nccl() -> Result<String, String> {
    super::call::nccl()
}

/// NCCL's version.
///
/// # Errors
/// This program cannot use it.
#[cfg(not(feature = "cuda"))]
pub(in crate::probe) fn nccl() -> Result<String, String> {
    Err(super::ABSENT.to_owned())
}

/// Version and number of GPUs.
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

/// GPUs as NVML, which comes with the driver, tells them.
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

/// Looks at a GPU's clock now and then, while something is timed on it.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub(super) struct Pulse {
    nvml: Option<nvml_wrapper::Nvml>,
    number: u32,
}

#[cfg(feature = "cuda")]
impl Pulse {
    /// Of the GPU of a number; sees nothing without NVML.
    pub(super) fn new(number: usize) -> Pulse {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        Pulse { nvml: nvml_wrapper::Nvml::init().ok(), number }
    }

    /// The clock of its multiprocessors [Hz], the highest that it can have [Hz], and what holds it down.
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

/// What holds clocks down, in words; being idle is no reason.
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
    fn what_is_missing_is_all_said() {
        let found = |place| Found { name: "a", file: "liba.so", place, version: None };
        let survey = Survey {
            driver: Err("no driver".into()),
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
    fn clocks_that_are_held_down_spoil_trials() {
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

    /// On any machine, with or without a driver.
    #[test]
    fn looking_ends_without_panic() {
        let survey = Survey::look();
        assert_eq!(survey.driver.is_err(), survey.driver.is_err_and(|why| why.len() > 10));
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn idle_gpus_are_not_held_down() {
        use nvml_wrapper::bitmasks::device::ThrottleReasons as Reason;
        assert!(reasons(Reason::GPU_IDLE).is_empty());
        assert_eq!(reasons(Reason::SW_POWER_CAP | Reason::GPU_IDLE), ["power limit"]);
    }
}
