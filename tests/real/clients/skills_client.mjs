// What a host on the TypeScript SDK 2.x does with skills and apps: it lists the skills, checks every
// file of each against its entry, walks the directories, and looks at the views that tools name.
// Same options as the other clients (tests/real/rig.py), no steps; one JSON object on stdout.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { readTask, transportTo } from './steps.mjs'

const UI = { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } }

const task = await readTask()
const mode = task.mode === 'legacy' ? 'legacy' : { pin: task.mode }
const client = new Client(
  { name: 'host', version: '1' },
  { capabilities: { roots: {}, extensions: UI }, versionNegotiation: { mode } },
)
client.setRequestHandler('roots/list', () => ({ roots: [] }))
await client.connect(
  transportTo(task, { http: StreamableHTTPClientTransport, stdio: StdioClientTransport }),
)
// What servers offer is known once they have been asked, and then declared to whoever comes next.
const { tools } = await client.listTools()
const views = {}
for (const { name, _meta } of tools) {
  const uri = _meta?.ui?.resourceUri
  if (!uri) continue
  const [page] = (await client.readResource({ uri })).contents
  const [said] = (await client.callTool({ name, arguments: {} })).content
  views[name] = { uri, page, said: said.text }
}

const skills = new SkillsClient(client)
const { supported, directoryRead } = skills
const listed = []
for (const entry of supported ? (await skills.list()).skills : []) {
  const { skill } = await skills.get(entry.uri)
  if (JSON.stringify(skill) !== JSON.stringify(entry)) throw new Error(`two entries of ${entry.uri}`)
  const files = {}
  for (const { uri } of entry.resources) {
    const relative = uri.slice(entry.uri.length - 'SKILL.md'.length)
    const { verified, text } = await skills.read(entry, relative)
    files[relative] = { verified, text }
  }
  const root = entry.uri.replace(/\/SKILL\.md$/, '')
  const children = directoryRead ? (await skills.readDirectory(root)).resources.map((r) => r.uri) : []
  listed.push({ uri: entry.uri, files, children })
}
const extensions = client.getServerCapabilities().extensions
process.stdout.write(JSON.stringify({ extensions, supported, directoryRead, listed, views }) + '\n')
await client.close()
