#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| marquetry_audit::fuzz::audit(data));
