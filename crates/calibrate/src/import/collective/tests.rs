//! Tests with tables as users have them: several versions, copies without `#`, logs with lines of other programs.

use super::nccl_tests::NCCL;
use super::*;

pub(super) fn wanted(ranks: Option<u32>, collective: Option<Collective>) -> CollectiveDefaults {
    CollectiveDefaults { transport: "t".to_owned(), collective, ranks }
}

pub(super) fn imported(of: Benchmark, text: &str, ranks: Option<u32>) -> Imported {
    read(of, text, &wanted(ranks, None)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns operation, ranks, bytes and microseconds of each sample.
pub(super) fn rows(of: &Imported) -> Vec<(String, f64, f64, f64)> {
    let row = |s: &Sample| {
        let micro = (s.seconds_each() * 1e9).round() / 1e3;
        (s.label("collective").to_owned(), s.setting("ranks"), s.setting("bytes"), micro)
    };
    of.samples.iter().map(row).collect()
}

pub(super) fn row(collective: &str, ranks: f64, bytes: f64, micro: f64) -> (String, f64, f64, f64) {
    (collective.to_owned(), ranks, bytes, micro)
}

const OSU: &str = "\
[a:mpi_rank_0][rdma_param] 2 nodes of one kind

# OSU MPI-CUDA Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations   P50 Tail Lat(us)   P99 Tail Lat(us)
4                       5.00              4.00              6.00        1000               5.00               7.00
[a:mpi_rank_0][Performance Warning]: 42 entries were evicted
1048576               400.00            390.00            420.00         100             400.00             430.00

# OSU MPI Allgather Latency Test v5.9
# Size       Avg Latency(us)
1024                   10.00

# OSU MPI Barrier Latency Test v5.9
# Avg Latency(us)
             3.21
# OSU MPI Latency Test v3.1
# Size            Latency (us)
0                         1.50
8                         1.60
# OSU MPI Bandwidth Test v3.1
# Size        Bandwidth (MB/s)
1                         3.10
";

#[test]
fn numbers_that_other_programs_print_between_rows_are_no_rows() {
    let osu = "# OSU MPI Allreduce Latency Test v7.5\n# Size Avg Latency(us)\n8 1.5\nNodes: 2\ngpu0: 34 61\n16 1.6\n";
    let expected = |micro| [row("allreduce", 8.0, 8.0, micro), row("allreduce", 8.0, 16.0, 1.6)];
    assert_eq!(rows(&imported(Benchmark::Osu, osu, Some(8))), expected(1.5));
    // The labels of the table itself may differ in their digits.
    let labelled: String =
        osu.lines().zip(0..).map(|(line, n)| format!("node{n} 0: {line}\n")).collect();
    let labelled = labelled.replace("node3 0: Nodes", "Nodes").replace("node4 0: gpu0", "gpu0");
    assert_eq!(rows(&imported(Benchmark::Osu, &labelled, Some(8))), expected(1.5));
    let imb = "# Benchmarking PingPong\n# #processes = 2; rank order (rowwise):\n#bytes #repetitions t[usec] Mbytes/sec\n\
               8 1000 1.5 5.3\ngpu0: 34 61 300 1400\n";
    assert_eq!(rows(&imported(Benchmark::Imb, imb, None)), [row("message", 2.0, 8.0, 1.5)]);
}

#[test]
fn rows_that_a_benchmark_marks_as_wrong_are_excluded_from_fits() {
    let osu = "# OSU MPI Allreduce Latency Test v7.5\n# Size Avg Latency(us) Validation\n8 5.1 Pass\n16 0.5 Fail\n";
    let imb = "# Benchmarking Allreduce\n# #processes = 8\n\
               #bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] defects\n\
               8 1000 4.0 5.1 4.5 0.00\n16 1000 0.3 0.5 0.4 1.00\n";
    for (of, text) in [(Benchmark::Osu, osu), (Benchmark::Imb, imb)] {
        let found = imported(of, text, (of == Benchmark::Osu).then_some(8));
        let excluded: Vec<bool> =
            found.samples.iter().map(|sample| sample.excluded.is_some()).collect();
        assert_eq!(excluded, [false, true], "{of:?}");
    }
}

#[test]
fn osu_tables_of_all_versions_are_read_by_header() {
    let expected = [
        row("allreduce", 4.0, 4.0, 6.0),
        row("allreduce", 4.0, 1_048_576.0, 420.0),
        row("allgather", 4.0, 4096.0, 10.0),
    ];
    let collectives = &OSU[..OSU.find("# OSU MPI Latency").expect("a table")];
    for text in [collectives.to_owned(), collectives.replace("# ", "")] {
        let found = imported(Benchmark::Osu, &text, Some(4));
        assert_eq!(rows(&found), expected, "{text}");
        assert_eq!(found.samples[1].operations, 100);
        assert!(found.left_out.iter().any(|what| what.contains("Barrier")), "{:?}", found.left_out);
    }
    let messages =
        imported(Benchmark::Osu, &OSU[OSU.find("# OSU MPI Latency").expect("a table")..], None);
    assert_eq!(rows(&messages), [row("message", 2.0, 0.0, 1.5), row("message", 2.0, 8.0, 1.6)]);
    assert!(messages.left_out[0].contains("Bandwidth"), "{:?}", messages.left_out);
}

const IMB: &str = "\
#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part
#---------------------------------------------------
# Benchmarking PingPong
# #processes = 2
# ( 142 additional processes waiting in MPI_Barrier )
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            0         1000         1.10         0.00
         1024         1000         2.00       512.00

#----------------------------------------------------------------
# Benchmarking Alltoall
# #processes = 16
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.03         0.04         0.03
         4096          640        11.00        13.00        12.00
# Benchmarking Allreduce
# #processes = 144
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
    134217728            1    147394.84    161213.00    155283.13
# Benchmarking Barrier
# #processes = 144
 #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1000         8.00         9.00         8.50

# All processes entering MPI_Finalize
";

#[test]
fn one_sided_osu_tests_are_left_out_in_old_and_new_spelling() {
    for title in [
        "OSU MPI_Put Latency Test v5.8",
        "OSU MPI_Put-CUDA Latency Test v5.8",
        "OSU MPI_Get latency Test v3.6",
        "OSU One Sided MPI_Put latency Test v3.1.1",
        "OSU One Sided MPI_Get Passive latency Test v3.7",
        "OSU OpenSHMEM Put Latency Test v5.3",
        "OSU UPC Memput Latency Test v5.3",
    ] {
        // After the table of messages, so that its rows cannot be taken for more of them.
        let messages = "# OSU MPI Latency Test v5.8\n# Size  Latency (us)\n8  1.5\n";
        let put = format!("# {title}\n# Size  Latency (us)\n8  0.5\n1024  0.6\n");
        for text in [format!("{messages}{put}"), format!("{put}{messages}")] {
            let found = imported(Benchmark::Osu, &text, None);
            assert_eq!(rows(&found), [row("message", 2.0, 8.0, 1.5)], "{title}");
            assert!(found.left_out[0].contains(title), "{:?}", found.left_out);
        }
    }
}

#[test]
fn imb_send_receive_is_no_one_way_message() {
    let text = "# Benchmarking Sendrecv\n# #processes = 4\n#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] Mbytes/sec\n\
                1024 1000 2.0 3.0 2.5 600.0\n";
    let found = imported(Benchmark::Imb, text, None);
    assert_eq!(rows(&found), [row("send-receive", 4.0, 1024.0, 3.0)]);
}

#[test]
fn imb_times_are_those_of_the_slowest_rank() {
    let found = imported(Benchmark::Imb, IMB, None);
    let expected = [
        row("message", 2.0, 0.0, 1.1),
        row("message", 2.0, 1024.0, 2.0),
        row("all-to-all", 16.0, 65_536.0, 13.0),
        row("allreduce", 144.0, 134_217_728.0, 161_213.0),
    ];
    assert_eq!(rows(&found), expected);
    assert_eq!(found.samples[2].operations, 640);
    assert_eq!(found.left_out, ["rows of no bytes, which move nothing", "the benchmark `Barrier`"]);
}

const DEEPBENCH: &str = "\
 NCCL MPI AllReduce
 Num Ranks: 8
----------------------------------------------------------------------------
    # of floats    bytes transferred    Avg Time (msec)    Max Time (msec)
----------------------------------------------------------------------------
         100000         400000             0.14805             0.15000
       16777216       67108864             13.5000             13.6000
 Ring AllReduce
 Num Ranks: 2
    # of floats    bytes transferred    Time (msec)
         100000         400000                 0.5
";

#[test]
fn deepbench_results_are_read_from_program_output_and_csv_tables() {
    let found = imported(Benchmark::DeepBench, DEEPBENCH, None);
    let expected = [
        row("allreduce", 8.0, 4e5, 150.0),
        row("allreduce", 8.0, 67_108_864.0, 13_600.0),
        row("allreduce", 2.0, 4e5, 500.0),
    ];
    assert_eq!(rows(&found), expected);
    assert_eq!(
        (found.samples[0].label("algorithm"), found.samples[2].label("algorithm")),
        ("NCCL MPI", "Ring")
    );
    let csv = "# a comment\nmachine,ranks,floats,milliseconds,algorithm\nm,8,100000,0.15,ring\n";
    let found = imported(Benchmark::DeepBench, csv, None);
    assert_eq!(rows(&found), expected[..1]);
    assert_eq!(
        (found.samples[0].label("transport"), found.samples[0].label("algorithm")),
        ("m", "ring")
    );
    for label in ["0: ", "node1: ", "[0] ", "bench\tRun x\t2026-11-27T10:00:00.1234567Z "] {
        let labelled = |text: &str| -> String {
            text.lines().map(|line| format!("{label}{line}\n")).collect()
        };
        assert_eq!(imported(Benchmark::DeepBench, &labelled(csv), None), found, "{label}");
        let output = imported(Benchmark::DeepBench, &labelled(DEEPBENCH), None);
        assert_eq!(rows(&output), expected, "{label}");
    }
}

#[test]
fn damaged_rows_of_collective_benchmarks_are_refused_with_line_numbers() {
    let refused = |of, text: &str, ranks, words: &str| {
        let error = read(of, text, &wanted(ranks, None)).expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    };
    let nccl = |from: &str, to: &str, words: &str| {
        assert!(NCCL.contains(from));
        refused(Benchmark::NcclTests, &NCCL.replace(from, to), None, words);
    };
    nccl(
        "1198.0  112.03  168.05     N/A",
        "1198.0",
        "line 18: the row has 10 columns, its header 13; join",
    );
    nccl(
        "50.00   20.97",
        "NCCL   20.97",
        "line 17: `NCCL` in column 6 is no number; another program's",
    );
    nccl("    50.00  ", "   -50.00  ", "line 17: the time [s] -5.000e-5 is not possible");
    nccl(
        "31.46",
        "41.94",
        "line 17: busbw is 2.000 of algbw, where `allreduce` of 4 ranks has 1.500",
    );
    nccl(
        "# Collective test starting: all_reduce_perf",
        "#",
        "line 15: no line before this row names the collective; give --coll",
    );
    nccl("algbw   busbw  #wrong     time", "bw   time", "line 13: the header has no columns");
    nccl("#       size", "#       bytes", "the file has no rows that can be used; check that");
    refused(
        Benchmark::NcclTests,
        NCCL,
        Some(8),
        "line 15: the table is of 4 ranks, not of 8; leave out",
    );
    let osu = |from: &str, to: &str, words: &str| {
        refused(Benchmark::Osu, &OSU.replace(from, to), Some(4), words);
    };
    refused(Benchmark::Osu, OSU, None, "line 6: no line before this row gives the number of ranks");
    osu("              6.00        1000", "", "line 6: the row has 5 columns, its header 7");
    osu("420.00         100", "420.00         1.5", "line 8: `1.5` in column 5 is no count");
    osu("420.00", "NaN", "line 8: `NaN` in column 4 is no number");
    let bandwidth = "# OSU MPI Bandwidth Test v5.8\n# Size Bandwidth (MB/s)\n1 3.40\n";
    let only = "has only the table `OSU MPI Bandwidth Test v5.8`; give the output of a collective";
    refused(Benchmark::Osu, bandwidth, Some(2), only);
    let imb = |from: &str, to: &str, words: &str| {
        refused(Benchmark::Imb, &IMB.replace(from, to), None, words);
    };
    imb("= 16", "= many", "line 13: `many` is no number of processes");
    imb("        13.00        12.00", "", "line 17: the row has 3 columns, its header 5");
    imb("134217728  ", "1e99999  ", "line 21: `1e99999` in column 1 is no number");
    let csv = "ranks,floats,milliseconds\n8,100000\n";
    refused(Benchmark::DeepBench, csv, None, "line 2: not CSV");
    refused(
        Benchmark::DeepBench,
        "ranks,milliseconds\n8,1\n",
        None,
        "the file has no column `floats`",
    );
    refused(
        Benchmark::DeepBench,
        &csv.replace("8,100000", "8,x,1"),
        None,
        "line 2: `x` in column 2",
    );
    let other = wanted(None, Some(Collective::Reduce));
    let error = read(Benchmark::NcclTests, NCCL, &other).expect_err("another").to_string();
    assert!(error.contains("the table is of `allreduce`, not of `reduce`"), "{error}");
}

#[test]
fn truncated_outputs_of_collective_benchmarks_cause_no_panic() {
    let all = [
        (Benchmark::NcclTests, NCCL),
        (Benchmark::Osu, OSU),
        (Benchmark::Imb, IMB),
        (Benchmark::DeepBench, DEEPBENCH),
    ];
    for (of, text) in all {
        for end in 0..text.len() {
            for other in
                [Benchmark::NcclTests, Benchmark::Osu, Benchmark::Imb, Benchmark::DeepBench]
            {
                let _ = read(other, &text[..end], &wanted(Some(4), None));
            }
            let _ = read(of, &text[end..], &wanted(None, Some(Collective::AllGather)));
        }
    }
}
