//! Published properties of interconnects, from their specifications.

/// A link or a network interface.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interconnect {
    /// Name in scenarios: `nvlink3`, `pcie4-x16`, `nic-100g`.
    pub name: &'static str,
    /// Highest data rate in one direction [B/s]. Line encoding is deducted; packet headers are not.
    pub bandwidth: f64,
    /// Specification that gives the bandwidth.
    pub source: &'static str,
}

const fn nvlink(name: &'static str, gigabytes: f64, source: &'static str) -> Interconnect {
    Interconnect { name, bandwidth: gigabytes * 1e9, source }
}

/// Returns a PCIe interconnect of 16 lanes at `giga` GT/s; 128 of every 130 bits carry data.
const fn pcie(name: &'static str, giga: f64, source: &'static str) -> Interconnect {
    Interconnect { name, bandwidth: 16.0 * giga * 1e9 / 8.0 * 128.0 / 130.0, source }
}

const fn nic(name: &'static str, gigabits: f64, source: &'static str) -> Interconnect {
    Interconnect { name, bandwidth: gigabits * 1e9 / 8.0, source }
}

/// All interconnects of the catalogue. The bandwidth of an NVLink is for one link; a GPU has several links.
pub const INTERCONNECTS: [Interconnect; 15] = [
    nvlink("nvlink1", 20.0, "NVIDIA Tesla P100 white paper, 2016"),
    nvlink("nvlink2", 25.0, "NVIDIA Tesla V100 white paper, 2017"),
    nvlink("nvlink3", 25.0, "NVIDIA A100 white paper, 2020"),
    nvlink("nvlink4", 25.0, "NVIDIA H100 white paper, 2022"),
    pcie("pcie3-x16", 8.0, "PCI Express base specification 3.0, 2010"),
    pcie("pcie4-x16", 16.0, "PCI Express base specification 4.0, 2017"),
    pcie("pcie5-x16", 32.0, "PCI Express base specification 5.0, 2019"),
    nic("nic-10g", 10.0, "IEEE 802.3ae, 2002"),
    nic("nic-25g", 25.0, "IEEE 802.3by, 2016"),
    nic("nic-40g", 40.0, "IEEE 802.3ba, 2010"),
    // FDR: four lanes of 14.0625 Gbit/s; 64 of every 66 bits are data.
    nic("nic-56g", 4.0 * 14.0625 * 64.0 / 66.0, "InfiniBand architecture specification, FDR, 2011"),
    nic("nic-50g", 50.0, "IEEE 802.3cd, 2018"),
    nic("nic-100g", 100.0, "IEEE 802.3bj, 2014; InfiniBand EDR"),
    nic("nic-200g", 200.0, "IEEE 802.3bs, 2017; InfiniBand HDR"),
    nic("nic-400g", 400.0, "IEEE 802.3bs, 2017; InfiniBand NDR"),
];

/// Returns the interconnect called `name`; `None` if the catalogue has no such interconnect.
#[must_use]
pub fn interconnect(name: &str) -> Option<&'static Interconnect> {
    INTERCONNECTS.iter().find(|link| link.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interconnect_bandwidths_match_published_values() {
        // PCI-SIG's figures [GB/s]; the data rate of FDR is published as 54.3 Gbit/s.
        for (name, published) in
            [("pcie3-x16", 15.75), ("pcie4-x16", 31.5), ("pcie5-x16", 63.0), ("nic-56g", 6.8)]
        {
            let found = interconnect(name).expect("a link").bandwidth;
            assert!((found / 1e9 / published - 1.0).abs() < 0.005, "{name}: {found}");
        }
        assert_eq!(interconnect("nic-100g").map(|link| link.bandwidth), Some(12.5e9));
    }

    #[test]
    fn every_interconnect_has_a_unique_name_and_a_source() {
        for (index, one) in INTERCONNECTS.iter().enumerate() {
            let first = INTERCONNECTS.iter().position(|other| other.name == one.name);
            assert_eq!(first, Some(index), "{}", one.name);
            assert!(one.source.len() > 10);
        }
        assert_eq!(interconnect("carrier-pigeon"), None);
    }
}
