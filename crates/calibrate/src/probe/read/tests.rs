use super::*;
use crate::probe::Ruler;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

fn context<'a>(directory: &'a Path, stop: &'a AtomicBool) -> Context<'a> {
    Context {
        directory,
        length: Duration::from_millis(2),
        longest: Duration::from_millis(2),
        noise: 1.0,
        ruler: Ruler::default(),
        deadline: Instant::now() + Duration::from_secs(60),
        stop,
        seed: 7,
    }
}

fn settings() -> ReadSettings {
    ReadSettings {
        access: List(vec![Access::Direct, Access::Cold, Access::Warm]),
        layout: List(vec![Layout::FilePerSample, Layout::Records]),
        size: List(vec![Bytes(4096), Bytes(10_000)]),
        readers: List(vec![Count(1), Count(3)]),
        disk: Bytes(400_000),
        budget: None,
    }
}

#[test]
fn read_trials_count_all_bytes_read_and_stay_within_the_planned_disk_space() {
    let (place, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let context = context(place.path(), &stop);
    let mut probe = ReadProbe::new(&settings(), None).unwrap();
    assert_eq!(probe.cells().len(), 3 * 2 * 2 * 2);
    probe.prepare(&context).unwrap();
    let used: u64 = probe.sets.iter().flat_map(|s| &s.files).map(|f| f.length).sum();
    // Both sets of records share a file.
    assert!(used - 200_000 <= probe.disk(), "{used}");
    for cell in probe.cells() {
        let trial = probe.trial(&cell, &context).unwrap();
        assert!(trial.operations > 0 && trial.seconds > 0.0, "{cell:?}");
        let bytes = trial.operations as f64 * cell.settings["size"];
        assert_eq!(trial.observed["bytes"], bytes, "{cell:?}");
        assert!(trial.observed["latency_p50"] <= trial.observed["latency_p99"]);
    }
}

#[test]
fn cold_reads_read_each_file_or_record_at_most_once() {
    let (place, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let mut context = context(place.path(), &stop);
    context.length = Duration::from_secs(5);
    let set = files::one_each(&context, 40_960, 4096).unwrap();
    let reads = read_units(&set, Access::Cold, 3, &context).unwrap();
    assert_eq!((reads.operations(), reads.bytes), (10, 40_960));
}

#[test]
fn records_do_not_overlap_or_extend_past_the_end_of_their_file() {
    let file = DataFile { path: "x".into(), length: 1 << 20 };
    for size in [1, 4096, 5000, 300_000] {
        let set = Set::of_records(size, vec![file.clone(), file.clone()]);
        for pair in set.units.windows(2) {
            let apart =
                pair[0].file != pair[1].file || pair[0].offset + pair[0].length <= pair[1].offset;
            assert!(apart && pair[0].offset % 4096 == 0, "{pair:?}");
        }
        assert!(set.units.iter().all(|unit| unit.offset + unit.length <= file.length));
    }
}

#[test]
fn reads_of_truncated_or_removed_files_are_reported_with_the_cause() {
    let (place, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let context = context(place.path(), &stop);
    let set = files::one_each(&context, 8192, 4096).unwrap();
    for file in &set.files {
        fs::write(&file.path, [0; 100]).unwrap();
    }
    let message = read_units(&set, Access::Warm, 1, &context).unwrap_err().to_string();
    assert!(message.contains("ends at byte 100, where 4096 bytes were expected"), "{message}");
    fs::remove_dir_all(place.path().join("4096")).unwrap();
    let message = read_units(&set, Access::Warm, 1, &context).unwrap_err().to_string();
    assert!(message.contains("was it removed while"), "{message}");
}

#[test]
fn warm_and_cold_reads_use_different_records() {
    let file = DataFile { path: "x".into(), length: 1 << 20 };
    let set = Set::of_records(4096, vec![file.clone()]);
    let (warm, cold) = (set.warm_part(u64::MAX), set.cold_part());
    assert_eq!([warm.units.clone(), cold.units].concat(), set.units);
    let counts = [0, 8192, 1 << 30].map(|bytes| set.warm_part(bytes).units.len());
    assert_eq!(counts, [1, 2, 64]);
    let single = Set::of_files(1 << 20, vec![file]);
    assert_eq!((single.warm_part(0).units.len(), single.cold_part().units.len()), (1, 1));
}

#[test]
fn read_buffers_are_aligned_to_4096_bytes() {
    for length in [0, 1, 4096, 4097] {
        let mut buffer = reader::Buffer::new(length);
        assert_eq!(buffer.bytes().as_ptr().align_offset(4096), 0);
        assert!(buffer.bytes().len() as u64 >= length);
    }
}

#[test]
fn a_disk_limit_below_the_minimum_is_refused_and_the_minimum_is_reported() {
    assert_eq!(settings().problem(), None);
    let few = ReadSettings { disk: Bytes(100_000), ..settings() };
    assert!(few.problem().unwrap().contains("at least \"360000 B\""), "{:?}", few.problem());
}

#[test]
fn read_measurements_of_user_files_write_nothing_to_disk() {
    let (place, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let data = tempfile::tempdir().unwrap();
    (0..5).for_each(|i| fs::write(data.path().join(i.to_string()), [0; 9000]).unwrap());
    let mut probe = ReadProbe::new(&settings(), Some(data.path().to_owned())).unwrap();
    let context = context(place.path(), &stop);
    probe.prepare(&context).unwrap();
    let cells = probe.cells();
    assert!(cells.iter().all(|cell| cell.settings["size"] == 9000.0), "{cells:?}");
    assert!(probe.trial(&cells[0], &context).unwrap().operations > 0);
    assert_eq!((probe.disk(), fs::read_dir(place.path()).unwrap().count()), (0, 0));
}
