-- ARGV: key, fingerprint, id, epoch, ms to keep. A store that forgot the marker has it again.
local key, fingerprint, id, epoch, kept_ms = unpack(ARGV)
local marker = marker_of(key)
if not marker.id or (marker.id == id and marker.state == 'r') then
  write_marker(key, fingerprint, id, epoch, 'e', kept_ms)
end
return 1
