//! Replaces learned values in the parameters of a Bind message.

use protocol::Format;
use protocol::frame::BODY_BYTES_MAX;
use protocol::frontend::{Bind, Parse, bind, tag};
use protocol::next_frame;

use super::Remap;
use super::value::of_parameter;

/// Replaces the mapped values in the Bind of a statement's messages. Returns the messages and the number of
/// replaced values; `None` if there are none. The messages before the Bind keep their length.
pub(crate) fn rewrite_bind(bytes: &[u8], remap: &Remap) -> Option<(Vec<u8>, u64)> {
    let mut types: Vec<u32> = Vec::new();
    let mut rest = bytes;
    // The replay encoded them itself; bytes that cannot be decoded are sent unchanged.
    while let Ok(Some(frame)) = next_frame(rest, BODY_BYTES_MAX) {
        let before = bytes.len() - rest.len();
        rest = &rest[frame.message_bytes()..];
        match frame.tag {
            tag::PARSE => types.extend(Parse::decode(frame.body).ok()?.parameter_types.iter()),
            tag::BIND => {
                let bind = Bind::decode(frame.body).ok()?;
                let mut out = Vec::with_capacity(bytes.len() + 64);
                out.extend_from_slice(&bytes[..before]);
                let count = encode(&bind, &types, remap, &mut out)?;
                out.extend_from_slice(rest);
                return Some((out, count));
            }
            _ => {}
        }
    }
    None
}

fn encode(bind: &Bind<'_>, types: &[u32], remap: &Remap, out: &mut Vec<u8>) -> Option<u64> {
    let mapped: Vec<Option<Vec<u8>>> = bind
        .parameters
        .iter()
        .enumerate()
        .map(|(index, parameter)| {
            let declared = types.get(index).copied().unwrap_or(0);
            let format = bind.parameter_formats.of(index)?;
            mapped(parameter?, declared, format, remap)
        })
        .collect();
    let count = mapped.iter().flatten().count() as u64;
    if count == 0 {
        return None;
    }
    let parameters = mapped.iter().zip(bind.parameters);
    bind::encode(
        bind.portal,
        bind.statement,
        bind.parameter_formats.iter(),
        parameters.map(|(mapped, parameter)| mapped.as_deref().or(parameter)),
        bind.result_formats.iter(),
        out,
    )
    .ok()?;
    Some(count)
}

fn mapped(parameter: &[u8], declared: u32, format: Format, remap: &Remap) -> Option<Vec<u8>> {
    let replayed = remap.map(of_parameter(declared, format, parameter)?)?;
    match format {
        Format::Binary => replayed.binary(parameter.len()),
        _ => Some(replayed.text()),
    }
}
