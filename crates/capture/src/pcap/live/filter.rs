//! A program for the kernel that lets TCP of some ports through, and what can only be judged here.
//!
//! It sees packets from their IP header on. Fragments, IPv6 with extension headers, and VLANs' tags
//! that a card left in a packet go through: they are counted or followed where packets are read.
//!
//! Facts: the kernel's `Documentation/networking/filter.rst`.

use libc::sock_filter;

const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
/// From the index register on.
const LOAD_HALF_BEHIND: u16 = 0x48;
/// The length of the IPv4 header into the index register.
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Where the kernel keeps a packet's EtherType (`SKF_AD_OFF` + `SKF_AD_PROTOCOL`).
const ETHER_TYPE: u32 = 0xffff_f000;

const DROP: u32 = 0;
const TAKE: u32 = u32::MAX;

/// With more, a jump would go farther than one can.
const PORTS_MAX: usize = 100;

fn step(code: u16, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

/// Goes over `met` instructions where the condition is met, else over `not`.
fn jump(code: u16, k: u32, met: usize, not: usize) -> sock_filter {
    let (jt, jf) = (met as u8, not as u8);
    sock_filter { code, jt, jf, k }
}

/// The program; `None` for so many ports that everything is to be looked at.
pub(super) fn of_ports(ports: &[u16]) -> Option<Vec<sock_filter>> {
    if ports.len() > PORTS_MAX {
        return None;
    }
    let mut ipv4 = vec![
        step(LOAD_BYTE, 9),
        jump(JUMP_EQUAL, 6, 1, 0),
        step(RETURN, DROP),
        step(LOAD_HALF, 6),
        jump(JUMP_SET, 0x3fff, 0, 1),
        step(RETURN, TAKE),
        step(LOAD_HEADER_LENGTH, 0),
    ];
    ipv4.extend(compared(ports, LOAD_HALF_BEHIND, 0));
    let mut ipv6 = vec![
        step(LOAD_BYTE, 6),
        jump(JUMP_EQUAL, 6, 4, 0),
        // UDP and ICMPv6.
        jump(JUMP_EQUAL, 17, 1, 0),
        jump(JUMP_EQUAL, 58, 0, 1),
        step(RETURN, DROP),
        step(RETURN, TAKE),
    ];
    ipv6.extend(compared(ports, LOAD_HALF, 40));
    let mut program = vec![
        step(LOAD_HALF, ETHER_TYPE),
        jump(JUMP_EQUAL, 0x86dd, 0, 1),
        // Behind the part for IPv4.
        step(JUMP, 4 + ipv4.len() as u32),
        jump(JUMP_EQUAL, 0x0800, 3, 0),
        jump(JUMP_EQUAL, 0x8100, 0, 1),
        step(RETURN, TAKE),
        step(RETURN, DROP),
    ];
    program.extend(ipv4);
    program.extend(ipv6);
    Some(program)
}

/// Takes what has one of the ports in one of the two places from `at` on.
fn compared(ports: &[u16], load: u16, at: u32) -> Vec<sock_filter> {
    let take = 2 * (ports.len() + 1) + 1;
    let mut steps = Vec::with_capacity(take + 1);
    for at in [at, at + 2] {
        steps.push(step(load, at));
        for port in ports {
            let over = take - steps.len() - 1;
            steps.push(jump(JUMP_EQUAL, u32::from(*port), over, 0));
        }
    }
    steps.push(step(RETURN, DROP));
    steps.push(step(RETURN, TAKE));
    steps
}
