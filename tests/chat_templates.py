"""Chat templates in the manner of published models: what each family does with roles, contents and specials.

TEMPLATES maps a name to (source, special tokens of its vocabulary, settings of `tokenizer.ggml`).
"""

CHATML = """\
{%- for m in messages -%}
{%- if loop.first and m['role'] != 'system' -%}
<|im_start|>system
You are helpful.<|im_end|>
{% endif %}<|im_start|>{{ m['role'] }}
{{ m['content'] }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""

# Typed content only; a colon without a space goes before a picture, and <image> for it.
SMOLVLM = (
    "<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}"
    "{% if m['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
    "{% for part in m['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif part['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)

# Writes BOS itself, trims, dates its system message.
LLAMA3 = """\
{{- bos_token }}
{%- set date = strftime_now('%d %b %Y') if strftime_now is defined else '26 Jul 2024' %}
{%- if messages[0]['role'] == 'system' %}
    {%- set said = messages[0]['content'] | trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set said = '' %}
    {%- set rest = messages %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday is a day.\\n\\n' + said + '<|eot_id|>' }}
{%- for m in rest %}
    {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

# Folds the system message itself; insists on turns by turns; takes strings and parts.
GEMMA3 = """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set prefix = '' -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for m in loop_messages -%}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('Roles must take turns: user, assistant, user') }}
    {%- endif -%}
    {%- set role = 'model' if m['role'] == 'assistant' else m['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else '') }}
    {%- if m['content'] is string -%}
        {{ m['content'] | trim }}
    {%- elif m['content'] is iterable -%}
        {%- for item in m['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception('Content of no known kind') }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}
"""

# No system role at all, alternation demanded.
GEMMA1 = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if m['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)

# Refuses system; user and assistant in turn.
MISTRAL_V1 = (
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}{% if m['role'] == 'user' %}"
    "{{ '[INST] ' + m['content'] + ' [/INST]' }}{% elif m['role'] == 'assistant' %}"
    "{{ m['content'] + eos_token }}{% else %}{{ raise_exception('Only user and assistant') }}{% endif %}"
    "{% endfor %}"
)

# System as a string or parts, users' parts looped over with a placeholder for pictures.
MISTRAL_V7 = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
{%- set said = messages[0]['content'] %}
{{- '[SYSTEM_PROMPT]' + (said if said is string else said[0]['text']) + '[/SYSTEM_PROMPT]' }}
{%- set messages = messages[1:] %}
{%- endif %}
{%- for m in messages %}
    {%- if m['role'] == 'user' %}
        {%- if m['content'] is string %}{{- '[INST]' + m['content'] + '[/INST]' }}
        {%- else %}{{- '[INST]' }}
            {%- for block in m['content'] %}
                {%- if block['type'] == 'text' %}{{- block['text'] }}
                {%- elif block['type'] in ['image', 'image_url'] %}{{- '[IMG]' }}
                {%- else %}{{- raise_exception('Only text and image') }}{%- endif %}
            {%- endfor %}{{- '[/INST]' }}
        {%- endif %}
    {%- elif m['role'] == 'assistant' %}{{- m['content'] + eos_token }}
    {%- else %}{{- raise_exception('Only user, system and assistant') }}
    {%- endif %}
{%- endfor %}
"""

# Drops the system message without a word.
PHI3 = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}"
    "{{ '<|user|>\n' + m['content'] + '<|end|>\n<|assistant|>\n' }}{% elif m['role'] == 'assistant' %}"
    "{{ m['content'] + '<|end|>\n' }}{% endif %}{% endfor %}"
)

# Strings or parts; writes its own frame around pictures, counts them if asked.
QWEN2VL = (
    "{% set n = namespace(value=0) %}{% for m in messages %}{% if loop.first and m.role != 'system' %}"
    "<|im_start|>system\nYou are helpful.<|im_end|>\n{% endif %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}<|im_end|>\n{% else %}{% for c in m.content %}"
    "{% if c.type == 'image' or 'image' in c or 'image_url' in c %}{% set n.value = n.value + 1 %}"
    "{% if add_vision_id %}Picture {{ n.value }}: {% endif %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in c %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Takes thinking out of the assistant's earlier answers, prompts for an empty one on demand.
QWEN3 = """\
{%- for m in messages %}
    {%- if m.role == 'assistant' %}
        {%- set content = m.content %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' + content + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# Gathers all system messages first, in a namespace.
DEEPSEEK = (
    "{% set ns = namespace(system='', first=true) %}{% for m in messages %}{% if m['role'] == 'system' %}"
    "{% if ns.first %}{% set ns.system = m['content'] %}{% set ns.first = false %}"
    "{% else %}{% set ns.system = ns.system + '\\n\\n' + m['content'] %}{% endif %}{% endif %}{% endfor %}"
    "{{ bos_token }}{{ ns.system }}{% for m in messages %}{% if m['role'] == 'user' %}"
    "{{ '<｜User｜>' + m['content'] }}{% elif m['role'] == 'assistant' and m['content'] is not none %}"
    "{{ '<｜Assistant｜>' + m['content'] + '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"
)

# A string for the system, parts for everyone else.
LLAVA = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] + '\n' }}{% else %}"
    "{{ m['role'] | upper + ': ' }}{% for c in m['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}{% for c in m['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ c['text'] + ' ' }}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)

BOS = {"add_bos_token": True}
TEMPLATES: dict[str, tuple[str, list[str], dict[str, object]]] = {
    "chatml": (CHATML, [], {}),
    "smolvlm": (SMOLVLM, ["<end_of_utterance>", "<image>"], {}),
    "llama3": (
        LLAMA3,
        ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        {**BOS, "pre": "llama-bpe"},
    ),
    "gemma3": (GEMMA3, ["<start_of_turn>", "<end_of_turn>", "<start_of_image>"], BOS),
    "gemma1": (GEMMA1, ["<start_of_turn>", "<end_of_turn>"], BOS),
    "mistral-v1": (MISTRAL_V1, [], BOS),
    "mistral-v7": (MISTRAL_V7, ["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[IMG]"], BOS),
    "phi3": (PHI3, ["<|user|>", "<|assistant|>", "<|end|>"], BOS),
    "qwen2vl": (QWEN2VL, ["<|vision_start|>", "<|image_pad|>", "<|vision_end|>"], {}),
    "qwen3": (QWEN3, [], {}),
    "deepseek": (DEEPSEEK, ["<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"], BOS),
    "llava": (LLAVA, ["<image>"], {}),
}
