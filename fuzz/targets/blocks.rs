#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| marquetry_context_blocks::fuzz::blocks(data));
