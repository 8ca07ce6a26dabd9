//! The CUDA source of our kernels.

/// Source files; each comes after the files that it uses.
const FILES: [(&str, &str); 9] = [
    ("common.cu", include_str!("../../../kernels/common.cu")),
    ("pointwise.cu", include_str!("../../../kernels/pointwise.cu")),
    ("pool.cu", include_str!("../../../kernels/pool.cu")),
    ("sums.cu", include_str!("../../../kernels/sums.cu")),
    ("norm.cu", include_str!("../../../kernels/norm.cu")),
    ("attention.cu", include_str!("../../../kernels/attention.cu")),
    ("loss.cu", include_str!("../../../kernels/loss.cu")),
    ("feed.cu", include_str!("../../../kernels/feed.cu")),
    ("update.cu", include_str!("../../../kernels/update.cu")),
];

/// Returns the whole source; `#line` directives make compiler messages name file and line.
pub(super) fn source() -> String {
    FILES.iter().map(|(name, text)| format!("#line 1 \"{name}\"\n{text}")).collect()
}

/// Returns the names of all kernels, read from the source.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let source = source();
    let mut names = Vec::new();
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("BOTH(") {
            let name = rest.split(',').next().unwrap_or_default();
            names.extend(["f32", "bf16"].map(|kind| format!("{name}_{kind}")));
        } else if let Some(rest) = line.strip_prefix("extern \"C\" __global__ void ") {
            names.push(rest.split('(').next().unwrap_or_default().to_owned());
        }
    }
    names
}

/// Architectures that tests compile for: A100, H100 and H200, B200.
#[cfg(test)]
pub(super) const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_a_name_of_its_own() {
        let names = names();
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(names.len(), different.len());
        for name in ["relu_bf16", "add_partials", "draw_near", "adam", "soften_f32"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
