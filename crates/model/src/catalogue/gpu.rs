//! Published properties of GPUs, from their makers' data sheets.

/// Bytes in a gigabyte of GPU memory as data sheets count it (2³⁰).
const GIB: f64 = 1_073_741_824.0;
/// Operations per second in 1 TFLOP/s.
const TERA: f64 = 1e12;

/// One GPU model. Peak rates are at boost clock and without sparsity; they are rates of matrix units if the GPU has them for that
/// precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    /// Name in scenarios: `v100-sxm2`.
    pub name: &'static str,
    /// Memory [B].
    pub memory: f64,
    /// Bandwidth of the memory [B/s].
    pub memory_bandwidth: f64,
    /// Peak in 32-bit floats [FLOP/s].
    pub fp32: f64,
    /// Peak in TF32 [FLOP/s]; `None` if the GPU lacks TF32.
    pub tf32: Option<f64>,
    /// Peak in 16-bit floats [FLOP/s]; `None` if it equals the peak in 32-bit floats.
    pub fp16: Option<f64>,
    /// Peak in BF16 [FLOP/s]; `None` if the GPU lacks BF16.
    pub bf16: Option<f64>,
    /// Links to other GPUs: name of the [interconnect](super::Interconnect) and number of links; `None` if the GPU has no NVLink.
    pub nvlink: Option<(&'static str, u32)>,
    /// Link to the host: name of the interconnect.
    pub host_link: &'static str,
    /// Data sheet that gives the numbers.
    pub source: &'static str,
}

const fn gpu_of(name: &'static str, memory: f64, bandwidth: f64, fp32: f64) -> Gpu {
    Gpu {
        name,
        memory: memory * GIB,
        memory_bandwidth: bandwidth * 1e9,
        fp32: fp32 * TERA,
        tf32: None,
        fp16: None,
        bf16: None,
        nvlink: None,
        host_link: "pcie3-x16",
        source: "",
    }
}

const fn tera(rate: f64) -> Option<f64> {
    Some(rate * TERA)
}

const P100: &str = "NVIDIA Tesla P100 data sheet, 2016";
const V100: &str = "NVIDIA Tesla V100 data sheet, 2018";
const A100: &str = "NVIDIA A100 data sheet, 2021";
const H100: &str = "NVIDIA H100 data sheet, 2023; rates with sparsity halved";

/// All GPUs of the catalogue.
pub const GPUS: [Gpu; 15] = [
    // The numbers are for one of the card's two GPUs, at its boost clock.
    Gpu {
        source: "NVIDIA Tesla K80 board specification, 2015",
        ..gpu_of("k80", 12.0, 240.0, 4.37)
    },
    Gpu {
        source: "NVIDIA GeForce GTX Titan X specifications, 2015",
        ..gpu_of("titan-x", 12.0, 336.5, 6.69)
    },
    Gpu {
        source: "NVIDIA Titan X (Pascal) specifications, 2016",
        ..gpu_of("titan-x-pascal", 12.0, 480.0, 10.97)
    },
    Gpu {
        source: "NVIDIA GeForce GTX 1080 Ti specifications, 2017",
        ..gpu_of("gtx-1080-ti", 11.0, 484.0, 11.34)
    },
    Gpu { fp16: tera(18.7), source: P100, ..gpu_of("p100-pcie", 16.0, 732.0, 9.3) },
    Gpu {
        fp16: tera(21.2),
        nvlink: Some(("nvlink1", 4)),
        source: P100,
        ..gpu_of("p100-sxm2", 16.0, 732.0, 10.6)
    },
    Gpu { fp16: tera(112.0), source: V100, ..gpu_of("v100-pcie", 16.0, 900.0, 14.0) },
    Gpu {
        fp16: tera(125.0),
        nvlink: Some(("nvlink2", 6)),
        source: V100,
        ..gpu_of("v100-sxm2", 16.0, 900.0, 15.7)
    },
    Gpu {
        fp16: tera(125.0),
        nvlink: Some(("nvlink2", 6)),
        source: V100,
        ..gpu_of("v100-sxm3-32gb", 32.0, 900.0, 15.7)
    },
    a100("a100-sxm4-40gb", 40.0, 1555.0),
    a100("a100-sxm4-80gb", 80.0, 2039.0),
    a100("a100-pcie-80gb", 80.0, 1935.0),
    Gpu {
        tf32: tera(378.0),
        fp16: tera(756.0),
        bf16: tera(756.0),
        nvlink: Some(("nvlink4", 12)),
        host_link: "pcie5-x16",
        source: H100,
        ..gpu_of("h100-pcie", 80.0, 2000.0, 51.0)
    },
    hopper("h100-sxm5", 80.0, 3350.0, H100),
    hopper("h200-sxm5", 141.0, 4800.0, "NVIDIA H200 data sheet, 2024; rates with sparsity halved"),
];

const fn a100(name: &'static str, memory: f64, bandwidth: f64) -> Gpu {
    Gpu {
        tf32: tera(156.0),
        fp16: tera(312.0),
        bf16: tera(312.0),
        nvlink: Some(("nvlink3", 12)),
        host_link: "pcie4-x16",
        source: A100,
        ..gpu_of(name, memory, bandwidth, 19.5)
    }
}

const fn hopper(name: &'static str, memory: f64, bandwidth: f64, source: &'static str) -> Gpu {
    Gpu {
        tf32: tera(494.5),
        fp16: tera(989.5),
        bf16: tera(989.5),
        nvlink: Some(("nvlink4", 18)),
        host_link: "pcie5-x16",
        source,
        ..gpu_of(name, memory, bandwidth, 67.0)
    }
}

/// Returns the GPU called `name`; `None` if the catalogue has no such GPU.
#[must_use]
pub fn gpu(name: &str) -> Option<&'static Gpu> {
    GPUS.iter().find(|gpu| gpu.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::interconnect;

    #[test]
    fn every_gpu_has_a_unique_name_and_plausible_rates() {
        for (index, one) in GPUS.iter().enumerate() {
            assert_eq!(GPUS.iter().position(|other| other.name == one.name), Some(index));
            assert_eq!(gpu(one.name), Some(one));
            assert!(one.source.contains("NVIDIA"), "{}", one.name);
            // Bytes of memory bandwidth per FLOP: all known GPUs are within these bounds.
            let balance = one.memory_bandwidth / one.fp32;
            assert!((0.03..0.15).contains(&balance), "{}: {balance}", one.name);
            assert!(one.fp16.is_none_or(|rate| rate > one.fp32), "{}", one.name);
            assert!(one.tf32.is_none_or(|rate| one.fp16.is_some_and(|half| half > rate)));
            assert!(interconnect(one.host_link).is_some(), "{}", one.name);
        }
        assert_eq!(gpu("voodoo"), None);
    }

    #[test]
    fn nvlink_bandwidths_add_up_to_the_totals_of_data_sheets() {
        // Both directions together [GB/s].
        for (name, both) in [
            ("p100-sxm2", 160.0),
            ("v100-sxm2", 300.0),
            ("a100-sxm4-80gb", 600.0),
            ("h100-sxm5", 900.0),
            ("h100-pcie", 600.0),
        ] {
            let (link, count) = gpu(name).and_then(|gpu| gpu.nvlink).expect("links");
            let link = interconnect(link).expect("a link");
            assert_eq!(2.0 * link.bandwidth * f64::from(count), both * 1e9, "{name}");
        }
    }
}
